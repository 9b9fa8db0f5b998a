"""The error tree. Everything that this package raises on purpose is one of these.

    WebDatasetError                     .what  .where  .hint
    ├── SpecError (ValueError)              you described the data or the pipeline wrongly
    ├── StoreError (OSError)                the bytes cannot be had                         .retryable
    │   ├── ShardNotFound (FileNotFoundError)
    │   ├── AccessDenied (PermissionError)
    │   ├── StoreTimeout (TimeoutError)
    │   ├── UnknownScheme (ValueError)
    │   └── CommandFailed                   a `pipe:` child ended badly
    ├── FormatError (ValueError)            the bytes are not what they claim to be
    │   ├── BadHeader (tarfile.ReadError)
    │   ├── TruncatedShard (tarfile.ReadError)
    │   ├── UnsupportedMember (tarfile.ReadError)
    │   ├── DuplicateField
    │   ├── SplitSample                     members of one key are not adjacent
    │   └── StaleIndex
    ├── EncodingError (ValueError)          a value cannot be written under its field name
    ├── DecodingError (ValueError)          a field cannot be decoded                       .url .key .k .sample
    ├── CollationError (ValueError)         samples cannot be put into one batch
    ├── UnsafeContent (ValueError)          reading on would run code out of the data
    ├── StageError (RuntimeError)           a stage broke the rules of its kind
    ├── StateError (ValueError)             this checkpoint does not fit this pipeline
    ├── ObsoleteException                   a function of the public library that is switched off
    └── MissingDependency (ImportError)     an extra is not installed

Every class is also the builtin (or `tarfile`) exception that a caller of the public library would have caught.
A message says *what* went wrong, *where*, and *what to do*. `Where` is filled on the way out: each room adds the words
it knows with `located`, and nobody edits `args`.
"""

from __future__ import annotations

import tarfile
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Where:
    """Where in the data something went wrong; unknown parts are None.

    >>> str(Where(shard="a.tar", offset=1536, key="0001"))
    'sample 0001, a.tar, byte 1536'
    """

    stage: str | None = None
    field: str | None = None
    key: str | None = None
    member: str | None = None
    shard: str | None = None
    offset: int | None = None

    def __str__(self) -> str:
        labels = {"stage": "stage ", "field": "field ", "key": "sample ", "member": "member ", "offset": "byte "}
        known = ((f.name, getattr(self, f.name)) for f in fields(self))
        return ", ".join(f"{labels.get(name, '')}{value}" for name, value in known if value is not None)


class WebDatasetError(Exception):
    """What went wrong, where, and what to do about it.

    >>> print(WebDatasetError("checksum does not match", Where(shard="a.tar", offset=512), hint="copy it again"))
    checksum does not match – a.tar, byte 512 – copy it again
    """

    def __init__(self, what: str = "", where: Where | None = None, *, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where or Where()
        self.hint = hint

    def __str__(self) -> str:
        return " – ".join(part for part in (self.what, str(self.where), self.hint) if part)

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process boundaries; OSError and ImportError would rebuild themselves from args alone.
        return _rebuild, (type(self), self.what, self.where, self.hint, self.__dict__.copy())


def _rebuild(
    cls: type[WebDatasetError], what: str, where: Where, hint: str | None, state: dict[str, Any]
) -> WebDatasetError:
    error = cls.__new__(cls)
    WebDatasetError.__init__(error, what, where, hint=hint)
    error.__dict__.update(state)
    return error


class SpecError(WebDatasetError, ValueError):
    """You described the data or the pipeline wrongly."""


class StoreError(WebDatasetError, OSError):
    """The bytes cannot be had."""

    retryable = False


class ShardNotFound(StoreError, FileNotFoundError):
    """Nothing is stored under this name."""


class AccessDenied(StoreError, PermissionError):
    """The place exists and does not let us in."""


class StoreTimeout(StoreError, TimeoutError):
    """The place did not answer in time."""

    retryable = True


class UnknownScheme(StoreError, ValueError):
    """No store is known for this kind of address."""


class CommandFailed(StoreError):
    """A `pipe:` command ended with a bad status."""


class FormatError(WebDatasetError, ValueError):
    """The bytes are not what they claim to be."""


class BadHeader(FormatError, tarfile.ReadError):
    """A tar header makes no sense or fails its checksum."""


class TruncatedShard(FormatError, tarfile.ReadError):
    """The archive ends before its end."""


class UnsupportedMember(FormatError, tarfile.ReadError):
    """The archive holds a kind of member that cannot be a field (sparse files, for example)."""


class DuplicateField(FormatError):
    """One sample holds the same field twice."""


class SplitSample(FormatError):
    """The members of one key are not adjacent in their shard."""


class StaleIndex(FormatError):
    """An index does not describe the shard it was asked about."""


class EncodingError(WebDatasetError, ValueError):
    """A value cannot be written under its field name."""


class CollationError(WebDatasetError, ValueError):
    """Samples cannot be put into one batch, or a batch cannot be taken apart."""


class UnsafeContent(WebDatasetError, ValueError):
    """Reading this would run code that came out of the data."""


class StageError(WebDatasetError, RuntimeError):
    """A stage broke the rules of its kind."""


class StateError(WebDatasetError, ValueError):
    """This checkpoint does not fit this pipeline."""


class ObsoleteException(WebDatasetError):
    """A function of the public library that works with ALLOW_OBSOLETE=1 only."""


class DecodingError(WebDatasetError, ValueError):
    """A field could not be decoded; the reason is `__cause__`.

    >>> error = DecodingError("a.tar", "0001", "jpg", {"jpg": b"<html>"}, what="not a JPEG (starts with 3c 68 74 6d)")
    >>> print(error)
    not a JPEG (starts with 3c 68 74 6d) – field jpg, sample 0001, a.tar
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        k: str | None = None,
        sample: Any = None,
        *,
        what: str = "cannot be decoded",
        hint: str | None = None,
    ) -> None:
        super().__init__(what, Where(field=k, key=key, shard=url), hint=hint)
        self.url, self.key, self.k, self.sample = url, key, k, sample


class MissingDependency(WebDatasetError, ImportError):
    """An optional package is needed and not installed.

    >>> print(MissingDependency("PIL", extra="images", why="to decode 'jpg'"))
    the package 'PIL' is needed to decode 'jpg' – pip install 'webdataset[images]'
    """

    def __init__(self, package: str, *, extra: str, why: str) -> None:
        super().__init__(f"the package {package!r} is needed {why}", hint=f"pip install 'webdataset[{extra}]'")
        self.package, self.extra = package, extra


@contextmanager
def located(**known: Any) -> Iterator[None]:
    """Add what this room knows to errors of ours that pass through; words that are set already stay.

    >>> with located(shard="a.tar"):
    ...     raise BadHeader("checksum does not match", Where(offset=512))
    Traceback (most recent call last):
    webdataset.errors.BadHeader: checksum does not match – a.tar, byte 512
    """
    try:
        yield
    except WebDatasetError as error:
        add_where(error, **known)
        raise


def add_where(error: WebDatasetError, **known: Any) -> None:
    """Fill in the parts of `error.where` that are still unknown.

    >>> error = BadHeader("checksum does not match", Where(offset=512))
    >>> add_where(error, shard="a.tar", offset=0)
    >>> print(error)
    checksum does not match – a.tar, byte 512
    """
    missing = {name: value for name, value in known.items() if getattr(error.where, name) is None}
    error.where = replace(error.where, **missing)
