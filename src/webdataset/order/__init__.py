"""Order: which sample comes at which position, which reader reads it, and what remains. Pure arithmetic without I/O.

* `_permutation`   a keyed permutation that is computed, not stored
* `_epoch_order`   the order of an epoch: position → (shard, sample)
* `_steps`         equal steps on every rank, and which of them a worker prepares
* `_remaining`     which reader reads which positions, and what remains after each has read a part
* `_mix_schedule`  which source comes next in a mix by exact shares
* `_weights`       weights of several sources
* `_prefix_sums`   where each of several ranges begins
"""

from typing import TYPE_CHECKING

from webdataset.lazy_names import lazy_names

if TYPE_CHECKING:
    from ._epoch_order import Order as Order
    from ._mix_schedule import MixSchedule as MixSchedule
    from ._permutation import derive_keys as derive_keys
    from ._permutation import permutation as permutation
    from ._permutation import permute as permute
    from ._prefix_sums import starts_of as starts_of
    from ._remaining import Reader as Reader
    from ._remaining import Remaining as Remaining
    from ._remaining import numbers_of as numbers_of
    from ._remaining import read_reader as read_reader
    from ._steps import Steps as Steps
    from ._weights import check_weights as check_weights
    from ._weights import pick as pick

# The file of each name.
_FILES = {
    "_epoch_order": "Order",
    "_mix_schedule": "MixSchedule",
    "_permutation": "derive_keys permutation permute",
    "_prefix_sums": "starts_of",
    "_remaining": "Reader Remaining numbers_of read_reader",
    "_steps": "Steps",
    "_weights": "check_weights pick",
}
_LAZY, _load = lazy_names(__name__, _FILES)

__all__ = sorted(_LAZY)  # noqa: PLE0605  # from the table

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__ = _load
