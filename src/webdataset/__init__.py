"""Training data from plain tar shards: `import webdataset as wds`.

Names are loaded when they are first used, so the import itself costs a few milliseconds and pulls in neither NumPy nor
torch. The public project's module names (`webdataset.filters`, `webdataset.tariterators`, …) live in `legacy/`, which
is put on this package's path.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webdataset.config import safety as _safety

__version__ = "2.0.0"

__path__.append(str(Path(__file__).parent / "legacy"))

# Where each public name lives; loaded on first use.
_HOME = {
    "webdataset.cache": "FileCache LRUCleanup StreamingOpen pipe_cleaner",
    "webdataset.codecs": (
        "Continue Decoder DecodingError gzfilter handle_extension imagehandler numpy_dumps torch_audio torch_dumps "
        "torch_loads torch_video unsafe_pickle"
    ),
    "webdataset.errors": (
        "AccessDenied BadHeader CommandFailed DuplicateField EncodingError FormatError MissingDependency ShardNotFound "
        "SpecError SplitSample StageError StaleIndex StateError StoreError StoreTimeout TruncatedShard UnknownScheme "
        "UnsafeContent UnsupportedMember WebDatasetError"
    ),
    "webdataset.handlers": ("ignore_and_continue ignore_and_stop reraise_exception warn_and_continue warn_and_stop"),
    "webdataset.loader": "WebLoader",
    "webdataset.pipeline": (
        "DataPipeline FluidInterface FluidWrapper MockDataset PipelineStage RandomMix RoundRobin WebDataset with_epoch "
        "with_length"
    ),
    "webdataset.shards": (
        "DirectoryShardList MultiShardSample ResampledShards ResampledShardList SimpleShardList non_empty resampled "
        "shardspec single_node_only split_by_node split_by_worker"
    ),
    "webdataset.stages": (
        "Cached DBCache LMDBCached associate batched decode default_collation_fn detshuffle extract_keys getfirst info "
        "listed log_keys map map_dict map_tuple pipelinefilter rename rename_keys repeatedly rng rsample select shuffle "
        "slice to_tuple transform_with unbatched unlisted xdecode"
    ),
    "webdataset.stores": "gopen_schemes",
    "webdataset.tariterators": ("group_by_keys tar_file_expander tarfile_samples tarfile_to_samples url_opener"),
    "webdataset.writers": "ShardWriter TarWriter",
}
_MODULES = (
    "autodecode cache compat extradatasets filters gopen handlers mix pipeline pytorch shardlists tariterators tenbin "
    "utils writer"
).split()


def _lazy() -> dict[str, str]:
    return {name: module for module, names in _HOME.items() for name in names.split()}


__all__ = sorted([*_lazy(), *_MODULES, "__version__"])  # noqa: PLE0605  # computed from the table above


def __getattr__(name: str) -> Any:
    home = _lazy().get(name)
    if home is not None:
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"webdataset.{name}")
    if name == "pytorch_weights_only":
        return _safety.weights_only
    raise AttributeError(f"module 'webdataset' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
