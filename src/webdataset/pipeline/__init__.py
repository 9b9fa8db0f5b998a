"""Runs. Stages come in, a dataset that can be iterated, copied, saved and resumed goes out.

This package knows the order of stages, not their meaning; it starts no threads or processes.

* `_stage_kinds.py`: what may be a stage of a pipeline, and how each kind is started
* `_cursor.py`: how far an iteration is, as a typed value
* `_checkpoint.py`, `_checkpoint_v1.py`: what `state_dict()` returns, and its version 1
* `_require_json.py`: refuse a state that is not JSON
* `_run.py`: one iteration, pass after pass
* `_running_pass.py`: one pass in progress
* `_rank_agreement.py`: whether all ranks read the same dataset
* `_inner_datasets.py`: the datasets inside a dataset, their seeds and weights
* `_read_ahead_rule.py`: whether threads may read ahead
* `_nested.py`: a dataset as a stage of another
* `_nested_join.py`: a join of datasets as a stage
* `_fused.py`: functions of one item, and what a loader has in flight of them
* `_column_batches.py`: batches made by column, where functions and `batched` allow it
* `_epoch_counter.py`: the number of the next pass, shared with worker processes
* `_epoch_length.py`: how many items an epoch has
* `_pipeline.py`: `DataPipeline`
* `_fluid.py`: every stage as a method
* `_webdataset.py`: `WebDataset`
* `_indexed_dataset.py`: a map-style dataset of the shards that a user names
* `_index_options.py`: which datasets are read by plan
* `_merge_states.py`: one checkpoint from those of all ranks
* `_indexed_api.py`: what a dataset can do when it starts with a plan
* `_mix.py`: several datasets as one
* `_source_choice.py`: which of them comes next
* `_dataset_wrappers.py`: `with_epoch`, `with_length` and `repeatedly` for any dataset, and a constant dataset
* `_spawn_pickling.py`: how a dataset is pickled for a process that is spawned
* `_torch_iterable.py`: be torch's `IterableDataset` without importing torch
"""

from typing import TYPE_CHECKING

from webdataset.lazy_names import lazy_names

if TYPE_CHECKING:
    from ._checkpoint import Checkpoint as Checkpoint
    from ._checkpoint import Identity as Identity
    from ._cursor import Beginning as Beginning
    from ._cursor import Cursor as Cursor
    from ._cursor import InPlan as InPlan
    from ._cursor import InStages as InStages
    from ._cursor import as_cursor as as_cursor
    from ._cursor import check_types as check_types
    from ._dataset_wrappers import MockDataset as MockDataset
    from ._dataset_wrappers import repeatedly as repeatedly
    from ._dataset_wrappers import with_epoch as with_epoch
    from ._dataset_wrappers import with_length as with_length
    from ._epoch_counter import EpochCounter as EpochCounter
    from ._fluid import FluidInterface as FluidInterface
    from ._fused import InFlight as InFlight
    from ._fused import Loop as Loop
    from ._indexed_api import Plannable as Plannable
    from ._indexed_dataset import IndexedDataset as IndexedDataset
    from ._inner_datasets import is_replayed as is_replayed
    from ._merge_states import merge_states as merge_states
    from ._mix import RandomMix as RandomMix
    from ._mix import RoundRobin as RoundRobin
    from ._mix import mix as mix
    from ._nested import Nestable as Nestable
    from ._nested import NestedProgress as NestedProgress
    from ._pipeline import DataPipeline as DataPipeline
    from ._read_ahead_rule import must_not_read_ahead as must_not_read_ahead
    from ._run import Run as Run
    from ._running_pass import NoTimer as NoTimer
    from ._running_pass import RunOptions as RunOptions
    from ._spawn_pickling import SpawnPickling as SpawnPickling
    from ._stage_kinds import PipelineStage as PipelineStage
    from ._torch_iterable import TorchIterable as TorchIterable
    from ._webdataset import CheckEmpty as CheckEmpty
    from ._webdataset import FluidWrapper as FluidWrapper
    from ._webdataset import WebDataset as WebDataset

# The file of each name.
_FILES = {
    "_checkpoint": "Checkpoint Identity",
    "_cursor": "Beginning Cursor InPlan InStages as_cursor check_types",
    "_dataset_wrappers": "MockDataset repeatedly with_epoch with_length",
    "_epoch_counter": "EpochCounter",
    "_fluid": "FluidInterface",
    "_fused": "InFlight Loop",
    "_indexed_api": "Plannable",
    "_indexed_dataset": "IndexedDataset",
    "_inner_datasets": "is_replayed",
    "_merge_states": "merge_states",
    "_mix": "RandomMix RoundRobin mix",
    "_nested": "Nestable NestedProgress",
    "_pipeline": "DataPipeline",
    "_read_ahead_rule": "must_not_read_ahead",
    "_run": "Run",
    "_running_pass": "NoTimer RunOptions",
    "_spawn_pickling": "SpawnPickling",
    "_stage_kinds": "PipelineStage",
    "_torch_iterable": "TorchIterable",
    "_webdataset": "CheckEmpty FluidWrapper WebDataset",
}
_LAZY, _load = lazy_names(__name__, _FILES)

__all__ = sorted(_LAZY)  # noqa: PLE0605  # from the table

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__ = _load
