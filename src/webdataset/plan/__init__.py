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

from ._array_batches import ArrayBatches
from ._join_fields import JOIN, MISSING, ByKey, JoinFields, described_joins, join_stages
from ._plan_progress import PlanProgress
from ._plan_state import PlanState, join_ranks, join_workers
from ._read_planned import ReadPlanned
from ._replace_failed import Replacements, in_slots, never_drops
from ._shuffle_report import Mixing, ShuffleReport, shuffle_report
from ._stage_analysis import count_items, is_even_chain, may_drop, reads_by_plan, replaces, step_size

__all__ = [
    "JOIN",
    "MISSING",
    "ArrayBatches",
    "ByKey",
    "JoinFields",
    "Mixing",
    "PlanProgress",
    "PlanState",
    "ReadPlanned",
    "Replacements",
    "ShuffleReport",
    "count_items",
    "described_joins",
    "in_slots",
    "is_even_chain",
    "join_ranks",
    "join_stages",
    "join_workers",
    "may_drop",
    "never_drops",
    "reads_by_plan",
    "replaces",
    "shuffle_report",
    "step_size",
]
