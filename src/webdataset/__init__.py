"""Training data from plain tar shards: `import webdataset as wds`.

Names are loaded when they are first used, so the import itself costs a few milliseconds and pulls in neither NumPy nor
torch. The public project's module names (`webdataset.filters`, `webdataset.tariterators`, …) are in `legacy/`, which is
added to the path of this package.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from webdataset import config

if TYPE_CHECKING:  # the table `_FILES` as imports, for editors and type checkers; a test compares the two
    from webdataset import cache as cache
    from webdataset import handlers as handlers
    from webdataset import interop as interop
    from webdataset import pipeline as pipeline
    from webdataset.cache import FileCache as FileCache
    from webdataset.cache import LRUCleanup as LRUCleanup
    from webdataset.cache import StreamingOpen as StreamingOpen
    from webdataset.cache import pipe_cleaner as pipe_cleaner
    from webdataset.codecs import Continue as Continue
    from webdataset.codecs import Decoder as Decoder
    from webdataset.codecs import PickleLoader as PickleLoader
    from webdataset.codecs import decode_image as decode_image
    from webdataset.codecs import gzfilter as gzfilter
    from webdataset.codecs import handle_extension as handle_extension
    from webdataset.codecs import imagehandler as imagehandler
    from webdataset.codecs import numpy_dumps as numpy_dumps
    from webdataset.codecs import torch_audio as torch_audio
    from webdataset.codecs import torch_dumps as torch_dumps
    from webdataset.codecs import torch_loads as torch_loads
    from webdataset.codecs import torch_video as torch_video
    from webdataset.codecs import unsafe_pickle as unsafe_pickle
    from webdataset.errors import AccessDenied as AccessDenied
    from webdataset.errors import BadHeader as BadHeader
    from webdataset.errors import CommandFailed as CommandFailed
    from webdataset.errors import DecodingError as DecodingError
    from webdataset.errors import DuplicateField as DuplicateField
    from webdataset.errors import EncodingError as EncodingError
    from webdataset.errors import FormatError as FormatError
    from webdataset.errors import MissingDependency as MissingDependency
    from webdataset.errors import ShardNotFound as ShardNotFound
    from webdataset.errors import SpecError as SpecError
    from webdataset.errors import SplitSample as SplitSample
    from webdataset.errors import StageError as StageError
    from webdataset.errors import StaleIndex as StaleIndex
    from webdataset.errors import StateError as StateError
    from webdataset.errors import StoreError as StoreError
    from webdataset.errors import StoreTimeout as StoreTimeout
    from webdataset.errors import TruncatedShard as TruncatedShard
    from webdataset.errors import UnknownScheme as UnknownScheme
    from webdataset.errors import UnsafeContent as UnsafeContent
    from webdataset.errors import UnsupportedMember as UnsupportedMember
    from webdataset.errors import WebDatasetError as WebDatasetError
    from webdataset.handlers import ignore_and_continue as ignore_and_continue
    from webdataset.handlers import ignore_and_stop as ignore_and_stop
    from webdataset.handlers import reraise_exception as reraise_exception
    from webdataset.handlers import warn_and_continue as warn_and_continue
    from webdataset.handlers import warn_and_stop as warn_and_stop
    from webdataset.index import index_shards as index_shards
    from webdataset.interop import dali as dali
    from webdataset.interop import from_hf as from_hf
    from webdataset.interop import to_hf as to_hf
    from webdataset.legacy import autodecode as autodecode
    from webdataset.legacy import compat as compat
    from webdataset.legacy import extradatasets as extradatasets
    from webdataset.legacy import filters as filters
    from webdataset.legacy import iterators as iterators
    from webdataset.legacy import pytorch as pytorch
    from webdataset.legacy import shardlists as shardlists
    from webdataset.legacy import tariterators as tariterators
    from webdataset.legacy import tenbin as tenbin
    from webdataset.legacy import utils as utils
    from webdataset.legacy import writer as writer
    from webdataset.legacy._live import gopen as gopen
    from webdataset.legacy._live import mix as mix
    from webdataset.legacy.gopen import gopen_schemes as gopen_schemes
    from webdataset.legacy.older import ChoppedDataset as ChoppedDataset
    from webdataset.legacy.older import Composable as Composable
    from webdataset.legacy.older import Dataset as Dataset
    from webdataset.legacy.older import FakeLength as FakeLength
    from webdataset.legacy.older import MultiDataset as MultiDataset
    from webdataset.legacy.older import Processor as Processor
    from webdataset.legacy.older import PytorchShardList as PytorchShardList
    from webdataset.legacy.older import ResizedDataset as ResizedDataset
    from webdataset.legacy.older import SampleEqually as SampleEqually
    from webdataset.legacy.older import ShardList as ShardList
    from webdataset.legacy.older import Shorthands as Shorthands
    from webdataset.legacy.older import cached_tarfile_samples as cached_tarfile_samples
    from webdataset.legacy.older import cached_tarfile_to_samples as cached_tarfile_to_samples
    from webdataset.legacy.older import cached_url_opener as cached_url_opener
    from webdataset.legacy.older import cbors2_to_samples as cbors2_to_samples
    from webdataset.legacy.older import cbors_to_samples as cbors_to_samples
    from webdataset.legacy.older import lru_cleanup as lru_cleanup
    from webdataset.legacy.older import maybe_cached_tarfile_to_samples as maybe_cached_tarfile_to_samples
    from webdataset.legacy.tariterators import group_by_keys as group_by_keys
    from webdataset.legacy.tariterators import tar_file_expander as tar_file_expander
    from webdataset.legacy.tariterators import tarfile_samples as tarfile_samples
    from webdataset.legacy.tariterators import tarfile_to_samples as tarfile_to_samples
    from webdataset.legacy.tariterators import url_opener as url_opener
    from webdataset.loader import WebLoader as WebLoader
    from webdataset.loader import profile as profile
    from webdataset.loader import progress as progress
    from webdataset.pipeline import DataPipeline as DataPipeline
    from webdataset.pipeline import FluidInterface as FluidInterface
    from webdataset.pipeline import FluidWrapper as FluidWrapper
    from webdataset.pipeline import IndexedDataset as IndexedDataset
    from webdataset.pipeline import MockDataset as MockDataset
    from webdataset.pipeline import PipelineStage as PipelineStage
    from webdataset.pipeline import RandomMix as RandomMix
    from webdataset.pipeline import RoundRobin as RoundRobin
    from webdataset.pipeline import WebDataset as WebDataset
    from webdataset.pipeline import merge_states as merge_states
    from webdataset.pipeline import with_epoch as with_epoch
    from webdataset.pipeline import with_length as with_length
    from webdataset.plan import ArrayBatches as ArrayBatches
    from webdataset.serve import connect as connect
    from webdataset.serve import serve_on_ray as serve_on_ray
    from webdataset.shards import DirectoryShardList as DirectoryShardList
    from webdataset.shards import MultiShardSample as MultiShardSample
    from webdataset.shards import ResampledShardList as ResampledShardList
    from webdataset.shards import ResampledShards as ResampledShards
    from webdataset.shards import SimpleShardList as SimpleShardList
    from webdataset.shards import non_empty as non_empty
    from webdataset.shards import resampled as resampled
    from webdataset.shards import shardspec as shardspec
    from webdataset.shards import single_node_only as single_node_only
    from webdataset.shards import split_by_node as split_by_node
    from webdataset.shards import split_by_worker as split_by_worker
    from webdataset.stages import Cached as Cached
    from webdataset.stages import DBCache as DBCache
    from webdataset.stages import LMDBCached as LMDBCached
    from webdataset.stages import associate as associate
    from webdataset.stages import batched as batched
    from webdataset.stages import bucketed as bucketed
    from webdataset.stages import decode as decode
    from webdataset.stages import default_collation_fn as default_collation_fn
    from webdataset.stages import detshuffle as detshuffle
    from webdataset.stages import extract_keys as extract_keys
    from webdataset.stages import getfirst as getfirst
    from webdataset.stages import info as info
    from webdataset.stages import join_columns as join_columns
    from webdataset.stages import listed as listed
    from webdataset.stages import log_keys as log_keys
    from webdataset.stages import map as map
    from webdataset.stages import map_dict as map_dict
    from webdataset.stages import map_tuple as map_tuple
    from webdataset.stages import packed as packed
    from webdataset.stages import padded_collation as padded_collation
    from webdataset.stages import pipelinefilter as pipelinefilter
    from webdataset.stages import rename as rename
    from webdataset.stages import rename_keys as rename_keys
    from webdataset.stages import repeatedly as repeatedly
    from webdataset.stages import rng as rng
    from webdataset.stages import rsample as rsample
    from webdataset.stages import select as select
    from webdataset.stages import shuffle as shuffle
    from webdataset.stages import slice as slice
    from webdataset.stages import to_tuple as to_tuple
    from webdataset.stages import transform_with as transform_with
    from webdataset.stages import unbatched as unbatched
    from webdataset.stages import unlisted as unlisted
    from webdataset.stages import xdecode as xdecode
    from webdataset.tools import map_shards as map_shards
    from webdataset.writers import ShardWriter as ShardWriter
    from webdataset.writers import TarWriter as TarWriter

    pytorch_weights_only: bool

__version__ = "2.0.0"

__path__.append(str(Path(__file__).parent / "legacy"))

# The module of each public name.
_FILES = {
    "webdataset.older": (
        "ChoppedDataset Composable Dataset FakeLength MultiDataset Processor PytorchShardList ResizedDataset "
        "SampleEqually ShardList Shorthands cached_tarfile_samples cached_tarfile_to_samples cached_url_opener "
        "cbors2_to_samples cbors_to_samples lru_cleanup maybe_cached_tarfile_to_samples"
    ),
    "webdataset.cache": ("FileCache LRUCleanup StreamingOpen pipe_cleaner"),
    "webdataset.codecs": (
        "Continue Decoder PickleLoader decode_image gzfilter handle_extension imagehandler numpy_dumps "
        "torch_audio torch_dumps torch_loads torch_video unsafe_pickle"
    ),
    "webdataset.errors": (
        "AccessDenied BadHeader CommandFailed DecodingError DuplicateField EncodingError FormatError "
        "MissingDependency ShardNotFound SpecError SplitSample StageError StaleIndex StateError StoreError "
        "StoreTimeout TruncatedShard UnknownScheme UnsafeContent UnsupportedMember WebDatasetError"
    ),
    "webdataset.gopen": ("gopen_schemes"),
    "webdataset.handlers": ("ignore_and_continue ignore_and_stop reraise_exception warn_and_continue warn_and_stop"),
    "webdataset.index": ("index_shards"),
    "webdataset.interop": ("dali from_hf to_hf"),
    "webdataset.loader": ("WebLoader profile progress"),
    "webdataset.pipeline": (
        "DataPipeline FluidInterface FluidWrapper IndexedDataset MockDataset PipelineStage RandomMix RoundRobin "
        "WebDataset merge_states with_epoch with_length"
    ),
    "webdataset.plan": ("ArrayBatches"),
    "webdataset.serve": ("connect serve_on_ray"),
    "webdataset.shards": (
        "DirectoryShardList MultiShardSample ResampledShardList ResampledShards SimpleShardList non_empty "
        "resampled shardspec single_node_only split_by_node split_by_worker"
    ),
    "webdataset.stages": (
        "Cached DBCache LMDBCached associate batched bucketed decode default_collation_fn detshuffle extract_keys "
        "getfirst info join_columns listed log_keys map map_dict map_tuple packed padded_collation pipelinefilter "
        "rename rename_keys repeatedly rng rsample select shuffle slice to_tuple transform_with unbatched unlisted "
        "xdecode"
    ),
    "webdataset.tariterators": ("group_by_keys tar_file_expander tarfile_samples tarfile_to_samples url_opener"),
    "webdataset.tools": ("map_shards"),
    "webdataset.writers": ("ShardWriter TarWriter"),
}
_MODULES = (
    "autodecode cache compat extradatasets filters gopen handlers interop iterators mix pipeline pytorch shardlists "
    "tariterators tenbin utils writer"
)
_LAZY = {name: module for module, names in _FILES.items() for name in names.split()}

__all__ = sorted([*_LAZY, *_MODULES.split(), "__version__", "pytorch_weights_only"])  # noqa: PLE0605  # from the table


if not TYPE_CHECKING:  # a type checker would believe that every name exists

    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            value = getattr(importlib.import_module(_LAZY[name]), name)
            globals()[name] = value
            return value
        if name in _MODULES.split():
            return importlib.import_module(f"webdataset.{name}")
        raise AttributeError(f"module 'webdataset' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


class _Package(ModuleType):
    """This package as an object, with the one setting that programs assign to."""

    @property
    def pytorch_weights_only(self) -> bool:
        """Whether `.pth` fields may hold tensors only, and no code (`WDS_PYTORCH_WEIGHTS_ONLY`)."""
        return config.safety.weights_only

    @pytorch_weights_only.setter
    def pytorch_weights_only(self, value: bool) -> None:
        config.safety.weights_only = value

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """A function that uses this module can be pickled by cloudpickle and dill: by the module's name."""
        return importlib.import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package
