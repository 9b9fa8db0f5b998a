"""All formats, and how to find one by its name or suffix."""

from __future__ import annotations

import os
from typing import Any

from webdataset.errors import SpecError

from ._beton import Beton
from ._cifar import Cifar
from ._hdf5 import HDF5
from ._image_folder import ImageFolder
from ._litdata import LitData
from ._mds import MDS
from ._mnist import MNIST
from ._npz_rows import Npz
from ._parquet import Arrow, Parquet
from ._record_format import Format
from ._tar_format import Tar
from ._tfrecord import TFRecord
from ._zip_samples import ZipSamples

FORMATS: dict[str, type[Format]] = {
    kind.name: kind
    for kind in (Tar, TFRecord, Parquet, Arrow, MDS, LitData, Beton, ImageFolder, Cifar, MNIST, ZipSamples, Npz, HDF5)
}


def find_format(spec: Any, source: Any = None) -> Format:
    """A format by its name, its class, or an object of it; None uses the suffix of `source`.

    >>> find_format(None, "train-{00..10}.tfrecord").name, find_format("mds").name, find_format(Tar(index=True)).name
    ('tfrecord', 'mds', 'tar')
    >>> find_format(None, "train.xyz")
    Traceback (most recent call last):
    webdataset.errors.SpecError: the format of 'train.xyz' is not known – name one of arrow, beton, ...
    """
    if isinstance(spec, Format):
        return spec
    if isinstance(spec, type) and issubclass(spec, Format):
        return spec()
    if isinstance(spec, str):
        if spec not in FORMATS:
            raise SpecError(f"the format {spec!r} is not known", hint=f"name one of {', '.join(sorted(FORMATS))}")
        return FORMATS[spec]()
    return _by_suffix(source)


def _by_suffix(source: Any) -> Format:
    first = source[0] if isinstance(source, list | tuple) and source else source
    name = os.fspath(first) if isinstance(first, str | os.PathLike) else repr(first)
    path = name.partition("?")[0].partition("::")[0].rstrip("}")
    for kind in FORMATS.values():
        if path.endswith(kind.suffixes):
            return kind()
    if ".tfrecord" in path.rpartition("/")[2] or "tfrecord-" in path:  # train.tfrecord-00000-of-01024
        return TFRecord()
    raise SpecError(f"the format of {name!r} is not known", hint=f"name one of {', '.join(sorted(FORMATS))}")
