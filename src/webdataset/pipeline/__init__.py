"""Runs. Stages come in, a dataset that can be iterated, copied, saved and resumed goes out.

This room knows the order of stages and nothing of their meaning; it does not know threads, processes or queues.

* `_stages.py`: what may stand in a pipeline, and how each kind is started
* `_running.py`: one pass in progress, and its state
* `_loop.py`: functions of one item, and what a loader has in flight of them
* `_stream.py`: pass after pass, and its state
* `_epochs.py`: which pass is this, also in worker processes
* `_pipeline.py`: `DataPipeline`
* `_fluid.py`: every stage as a method
* `_webdataset.py`: `WebDataset`
* `_indexed_dataset.py`: a map-style dataset out of whatever names shards
* `_indexed.py`: which datasets are read by plan
* `_planned.py`: indexed shards, read by plan
* `_in_plan.py`: how far a reader is in its part of an epoch
* `_chain.py`: what stands behind a plan
* `_places.py`: what all readers of a plan have done, out of what each says
* `_plannable.py`: what a dataset can do when it starts with a plan
* `_array_batches.py`: arrays of indexed shards, whole batches at a time
* `_mix.py`: several datasets as one
* `_drawing.py`: which of them comes next
* `_extra.py`: datasets around datasets: an epoch, a length, a constant
* `_torch.py`: be torch's `IterableDataset` without importing torch
"""

from ._array_batches import ArrayBatches
from ._epochs import EpochCounter
from ._extra import MockDataset, repeatedly, with_epoch, with_length
from ._fluid import FluidInterface
from ._indexed_dataset import IndexedDataset
from ._loop import InFlight
from ._mix import RandomMix, RoundRobin, mix
from ._pipeline import DataPipeline
from ._places import check_state, is_plan, merge_states, settled
from ._plannable import Plannable
from ._planned import ReadPlanned
from ._running import Running
from ._stages import PipelineStage
from ._stream import Stream
from ._torch import TorchIterable
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
    "ReadPlanned",
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
