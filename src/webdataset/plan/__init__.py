"""Plan: indexed shards come in, their samples go out in the computed order of an epoch, this process's part of them.

* `_read_planned`    the source: reads the positions of this process
* `_array_batches`   a source of arrays, whole batches at a time
* `_read_adjacent`   samples that are next to each other in a shard, read together
* `_fetch_ahead`     fetches the shards that are needed next into a cache
* `_plan_progress`   how far a reader is in its part of an epoch
* `_plan_state`      how far all readers are: the typed value of a checkpoint
* `_replace_failed`  samples in the place of those that failed or were filtered out
* `_stage_analysis`  what the stages after a plan mean for its steps, its state and its length
* `_join_fields`     fields of other shards, added by key
* `_shuffle_report`  how well an order mixes, in numbers
"""

from typing import TYPE_CHECKING

from webdataset.lazy_names import lazy_names

if TYPE_CHECKING:
    from ._array_batches import ArrayBatches as ArrayBatches
    from ._join_fields import JOIN as JOIN
    from ._join_fields import MISSING as MISSING
    from ._join_fields import ByKey as ByKey
    from ._join_fields import JoinFields as JoinFields
    from ._join_fields import described_joins as described_joins
    from ._join_fields import join_stages as join_stages
    from ._plan_progress import PlanProgress as PlanProgress
    from ._plan_state import PlanState as PlanState
    from ._plan_state import join_ranks as join_ranks
    from ._plan_state import join_workers as join_workers
    from ._read_planned import ReadPlanned as ReadPlanned
    from ._replace_failed import Replacements as Replacements
    from ._replace_failed import in_slots as in_slots
    from ._replace_failed import never_drops as never_drops
    from ._shuffle_report import Mixing as Mixing
    from ._shuffle_report import ShuffleReport as ShuffleReport
    from ._shuffle_report import shuffle_report as shuffle_report
    from ._stage_analysis import count_items as count_items
    from ._stage_analysis import is_even_chain as is_even_chain
    from ._stage_analysis import may_drop as may_drop
    from ._stage_analysis import plan_of as plan_of
    from ._stage_analysis import reads_by_plan as reads_by_plan
    from ._stage_analysis import replaces as replaces
    from ._stage_analysis import step_size as step_size

# The file of each name.
_FILES = {
    "_array_batches": "ArrayBatches",
    "_join_fields": "JOIN MISSING ByKey JoinFields described_joins join_stages",
    "_plan_progress": "PlanProgress",
    "_plan_state": "PlanState join_ranks join_workers",
    "_read_planned": "ReadPlanned",
    "_replace_failed": "Replacements in_slots never_drops",
    "_shuffle_report": "Mixing ShuffleReport shuffle_report",
    "_stage_analysis": "count_items is_even_chain may_drop plan_of reads_by_plan replaces step_size",
}
_LAZY, _load = lazy_names(__name__, _FILES)

__all__ = sorted(_LAZY)  # noqa: PLE0605  # from the table

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__ = _load
