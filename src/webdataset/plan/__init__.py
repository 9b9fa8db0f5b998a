"""Plan: indexed shards come in, their samples go out in the computed order of an epoch, this process's part of them.

* `_read_planned`   the source: reads the positions of this process
* `_plan_progress`  how far a reader is in its part of an epoch
* `_stage_analysis` what the stages after a plan mean for its steps, its state and its length
* `_join_fields`    fields of other shards, added by key
* `_shuffle_report` how well an order mixes, in numbers
"""

from ._join_fields import JOIN, MISSING, ByKey, JoinFields, described_joins, join_stages
from ._plan_progress import PlanProgress
from ._read_planned import ReadPlanned
from ._shuffle_report import Mixing, ShuffleReport, shuffle_report
from ._stage_analysis import batch_behind, is_even_chain, items_behind, may_drop

__all__ = [
    "JOIN",
    "MISSING",
    "ByKey",
    "JoinFields",
    "Mixing",
    "PlanProgress",
    "ReadPlanned",
    "ShuffleReport",
    "batch_behind",
    "described_joins",
    "is_even_chain",
    "items_behind",
    "join_stages",
    "may_drop",
    "shuffle_report",
]
