"""Order: which sample comes at which position, who reads it, and what remains. Pure arithmetic: no I/O, no process.

* `_permutation`  a keyed permutation that is computed, not stored
* `_epoch_order`  the order of an epoch: position → (shard, sample), and back
* `_steps`        who reads which positions: equal steps on every rank, every sample once
* `_remaining`    what remains of an epoch when some readers have read a part of it
* `_mix_schedule` which source comes next in a mix by exact shares
* `_weights`      weights of several sources
"""

from ._epoch_order import Order, Window, quasi_random, sequential
from ._mix_schedule import MixSchedule
from ._permutation import Permutation, derive_keys, permute
from ._remaining import Reader, Remaining, numbers_of
from ._steps import Part, Steps
from ._weights import check_weights, pick

__all__ = [
    "MixSchedule",
    "Order",
    "Part",
    "Permutation",
    "Reader",
    "Remaining",
    "Steps",
    "Window",
    "check_weights",
    "derive_keys",
    "numbers_of",
    "permute",
    "pick",
    "quasi_random",
    "sequential",
]
