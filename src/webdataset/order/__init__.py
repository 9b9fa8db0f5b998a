"""Order: which sample comes at which position, which reader reads it, and what remains. Pure arithmetic without I/O.

* `_permutation`   a keyed permutation that is computed, not stored
* `_epoch_order`   the order of an epoch: position → (shard, sample)
* `_steps`         equal steps on every rank, and which of them a worker prepares
* `_remaining`     which reader reads which positions, and what remains after each has read a part
* `_mix_schedule`  which source comes next in a mix by exact shares
* `_weights`       weights of several sources
* `_prefix_sums`   where each of several ranges begins
"""

from ._epoch_order import Order
from ._mix_schedule import MixSchedule
from ._permutation import derive_keys, permutation, permute
from ._prefix_sums import starts_of
from ._remaining import Reader, Remaining, numbers_of, read_reader
from ._steps import Steps
from ._weights import check_weights, pick

__all__ = [
    "MixSchedule",
    "Order",
    "Reader",
    "Remaining",
    "Steps",
    "check_weights",
    "derive_keys",
    "numbers_of",
    "permutation",
    "permute",
    "pick",
    "read_reader",
    "starts_of",
]
