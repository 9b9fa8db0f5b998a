"""The offer of a worker: its pipeline, the number of samples, and the code. Trainers compare offers."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from webdataset.errors import SpecError, StateError
from webdataset.flow import Json
from webdataset.pipeline import Identity

from ._messages import PROTOCOL, checked

# Packages whose version may change what a pipeline makes.
_PACKAGES = ("webdataset", "numpy", "torch", "opencv-python-headless", "pillow", "simplejpeg")


@dataclass(frozen=True)
class Offer:
    """The offer of a worker.

    Attributes:
        identity: of the pipeline, as in its checkpoints.
        samples: how many samples an epoch has.
        batch: how many samples make an item; 0 if items are samples.
        last: what several ranks do with an uneven end, as for `WebDataset(uneven=...)`.
        partial: whether a last batch that is not full is an item.
        code: versions of packages, and digests of the files that the pipeline's functions are defined in.
        threads: how many steps the worker makes at a time; workers may differ in this.
    """

    identity: Identity
    samples: int
    batch: int
    last: str | None
    partial: bool
    code: dict[str, str]
    threads: int = 1

    @functools.cached_property
    def digest(self) -> str:
        """Equal for workers that make the same items."""
        same = {**self.to_json(), "threads": 0, "code": sorted(self.code.items())}
        return hashlib.blake2b(repr(sorted(same.items())).encode(), digest_size=16).hexdigest()

    def difference(self, other: Offer) -> str | None:
        """A description of the difference to another worker; None if it makes the same items."""
        try:
            self.identity.check(other.identity)
        except StateError as error:
            return error.what.replace("of the checkpoint is", "there is").replace("the checkpoint", "it")
        for name in ("samples", "batch", "last", "partial"):
            if getattr(self, name) != getattr(other, name):
                return f"{name} is {getattr(other, name)}, here it is {getattr(self, name)}"
        for name in sorted(self.code.keys() | other.code.keys()):
            own, others = self.code.get(name, "absent"), other.code.get(name, "absent")
            if own != others:
                return f"the code of {name} is {others}, here it is {own}"
        return None

    def to_json(self) -> dict[str, Json]:
        """The offer as a header."""
        plain = {name: getattr(self, name) for name in ("samples", "batch", "last", "partial", "code", "threads")}
        return {**plain, "identity": self.identity.to_json(), "protocol": PROTOCOL}

    @classmethod
    def from_json(cls, header: dict[str, Any]) -> Self:
        """Parse an offer.

        Raises:
            FormatError: it is not an offer.
            SpecError: it is one of another version of the protocol.
        """
        (protocol,) = checked(header, protocol=int)
        if protocol != PROTOCOL:
            raise SpecError(
                f"the worker speaks version {protocol} of the protocol, this trainer speaks version {PROTOCOL}",
                hint="install the same webdataset on both",
            )
        identity, code, partial = checked(header, identity=dict, code=dict, partial=bool)
        samples, batch, threads = checked(header, samples=int, batch=int, threads=int)
        last = None if header.get("last") is None else str(header["last"])
        return cls(Identity.from_json(identity), samples, batch, last, partial, code, threads)


def describe_code(stages: Iterable[Any], make: Callable[..., Any] | None = None) -> dict[str, str]:
    """Versions of packages, and digests of the files of a user's functions.

    Installed files (the standard library, site-packages) are represented by the version of their package only.
    """
    code = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            code[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    for module in _modules([*stages, make]):
        for name, path in _files(module):
            code[name] = hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
    return code


def _modules(values: Iterable[Any]) -> set[str]:
    """The modules of all functions and classes in these values."""
    found: set[str] = set()
    waiting, seen = list(values), set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, functools.partial):
            waiting += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
        elif is_dataclass(value) and not isinstance(value, type):
            waiting += [getattr(value, field.name) for field in fields(value)]
        module = getattr(value, "__module__", None) or getattr(type(value), "__module__", None)
        if isinstance(module, str):
            found.add(module)
    return found


def _files(module: str) -> Iterator[tuple[str, Path]]:
    """The user's own files that were loaded with a module: its own, and those of its package."""
    root = module.partition(".")[0]
    for name, loaded in list(sys.modules.items()):
        if name == module or (name.partition(".")[0] == root and root not in {"webdataset", "__main__"}):
            path = _own_file(loaded)
            if path is not None:
                yield path.name if name == "__main__" else name, path


def _own_file(module: ModuleType | None) -> Path | None:
    name = getattr(module, "__file__", None)
    if not isinstance(name, str) or not name.endswith(".py"):
        return None
    path = Path(name).resolve()
    installed = {sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")}
    package = Path(__file__).resolve().parents[1]
    if any(path.is_relative_to(folder) for folder in {package, *map(Path, installed)}):
        return None
    return path if os.path.exists(path) else None
