"""Runs. Stages come in, a dataset that can be iterated, copied, saved and resumed goes out.

This room knows the order of stages and nothing of their meaning; it does not know threads, processes or queues.

* `_stage_kinds.py`: what may stand in a pipeline, and how each kind is started
* `_running.py`: one pass in progress, and its state
* `_fused.py`: functions of one item, and what a loader has in flight of them
* `_stream.py`: pass after pass, and its state
* `_epochs.py`: which pass is this, also in worker processes
* `_pipeline.py`: `DataPipeline`
* `_fluid.py`: every stage as a method
* `_webdataset.py`: `WebDataset`
* `_indexed_dataset.py`: a map-style dataset out of whatever names shards
* `_index_options.py`: which datasets are read by plan
* `_merge_states.py`: what all readers of a plan have done, out of what each says
* `_indexed_api.py`: what a dataset can do when it starts with a plan
* `_array_batches.py`: arrays of indexed shards, whole batches at a time
* `_mix.py`: several datasets as one
* `_source_choice.py`: which of them comes next
* `_dataset_wrappers.py`: datasets around datasets: an epoch, a length, a constant
* `_torch_iterable.py`: be torch's `IterableDataset` without importing torch
"""

from ._array_batches import ArrayBatches
from ._dataset_wrappers import MockDataset, repeatedly, with_epoch, with_length
from ._epochs import EpochCounter
from ._fluid import FluidInterface
from ._fused import InFlight
from ._indexed_api import Plannable
from ._indexed_dataset import IndexedDataset
from ._merge_states import check_state, is_plan, merge_states, settled
from ._mix import RandomMix, RoundRobin, mix
from ._pipeline import DataPipeline
from ._running import Running
from ._stage_kinds import PipelineStage
from ._stream import Stream
from ._torch_iterable import TorchIterable
from ._webdataset import CheckEmpty, FluidWrapper, WebDataset

__all__ = [
    "ArrayBatches",
    "CheckEmpty",
    "DataPipeline",
    "EpochCounter",
    "FluidInterface",
    "FluidWrapper",
    "InFlight",
    "IndexedDataset",
    "MockDataset",
    "PipelineStage",
    "Plannable",
    "RandomMix",
    "RoundRobin",
    "Running",
    "Stream",
    "TorchIterable",
    "WebDataset",
    "check_state",
    "is_plan",
    "merge_states",
    "mix",
    "repeatedly",
    "settled",
    "with_epoch",
    "with_length",
]
