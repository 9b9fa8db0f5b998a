"""Runs. Stages come in, a dataset that can be iterated, copied, saved and resumed goes out.

This package knows the order of stages, not their meaning; it starts no threads or processes.

* `_stage_kinds.py`: what may stand in a pipeline, and how each kind is started
* `_cursor.py`: how far an iteration is, as a typed value
* `_checkpoint.py`, `_checkpoint_v1.py`: what `state_dict()` returns, and its version 1
* `_require_json.py`: refuse a state that is not JSON
* `_run.py`: one iteration, pass after pass
* `_running_pass.py`: one pass in progress
* `_rank_agreement.py`: do all ranks read the same dataset
* `_inner_datasets.py`: the datasets inside a dataset, their seeds and weights
* `_read_ahead_rule.py`: whether threads may read ahead
* `_nested.py`: a dataset as a stage of another
* `_nested_join.py`: a join of datasets as a stage
* `_fused.py`: functions of one item, and what a loader has in flight of them
* `_column_batches.py`: batches made by column, where functions and `batched` allow it
* `_epoch_counter.py`: which pass is this, also in worker processes
* `_epoch_length.py`: how many items an epoch has
* `_pipeline.py`: `DataPipeline`
* `_fluid.py`: every stage as a method
* `_webdataset.py`: `WebDataset`
* `_indexed_dataset.py`: a map-style dataset out of whatever names shards
* `_index_options.py`: which datasets are read by plan
* `_merge_states.py`: one checkpoint from those of all ranks
* `_indexed_api.py`: what a dataset can do when it starts with a plan
* `_mix.py`: several datasets as one
* `_source_choice.py`: which of them comes next
* `_dataset_wrappers.py`: datasets around datasets: an epoch, a length, a constant
* `_spawn_pickling.py`: datasets on their way to a process that is spawned
* `_torch_iterable.py`: be torch's `IterableDataset` without importing torch
"""

from ._checkpoint import Checkpoint, Identity
from ._cursor import Beginning, Cursor, InPlan, InStages, as_cursor, check_types
from ._dataset_wrappers import MockDataset, repeatedly, with_epoch, with_length
from ._epoch_counter import EpochCounter
from ._fluid import FluidInterface
from ._fused import InFlight, Loop
from ._indexed_api import Plannable
from ._indexed_dataset import IndexedDataset
from ._inner_datasets import is_replayed
from ._merge_states import merge_states
from ._mix import RandomMix, RoundRobin, mix
from ._nested import Nestable, NestedProgress
from ._pipeline import DataPipeline
from ._read_ahead_rule import must_not_read_ahead
from ._run import Run
from ._running_pass import NoTimer, RunOptions
from ._spawn_pickling import SpawnPickling
from ._stage_kinds import PipelineStage
from ._torch_iterable import TorchIterable
from ._webdataset import CheckEmpty, FluidWrapper, WebDataset

__all__ = [
    "Beginning",
    "CheckEmpty",
    "Checkpoint",
    "Cursor",
    "DataPipeline",
    "EpochCounter",
    "FluidInterface",
    "FluidWrapper",
    "Identity",
    "InFlight",
    "InPlan",
    "InStages",
    "IndexedDataset",
    "Loop",
    "MockDataset",
    "Nestable",
    "NestedProgress",
    "NoTimer",
    "PipelineStage",
    "Plannable",
    "RandomMix",
    "RoundRobin",
    "Run",
    "RunOptions",
    "SpawnPickling",
    "TorchIterable",
    "WebDataset",
    "as_cursor",
    "check_types",
    "is_replayed",
    "merge_states",
    "mix",
    "must_not_read_ahead",
    "repeatedly",
    "with_epoch",
    "with_length",
]
