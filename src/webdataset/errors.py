"""The error classes. Everything that this package raises on purpose is one of these.

    WebDatasetError                     .what  .where  .hint
    ├── SpecError (ValueError)              an argument or a shard specification is wrong
    ├── StoreError (OSError)                data could not be read or written               .retryable
    │   ├── ShardNotFound (FileNotFoundError)
    │   ├── AccessDenied (PermissionError)
    │   ├── StoreTimeout (TimeoutError)
    │   ├── UnknownScheme (ValueError)
    │   └── CommandFailed                   a `pipe:` command failed
    ├── FormatError (ValueError)            data is not in the expected format
    │   ├── BadHeader (tarfile.ReadError)
    │   ├── TruncatedShard (tarfile.ReadError)
    │   ├── UnsupportedMember (tarfile.ReadError)
    │   ├── DuplicateField
    │   ├── SplitSample                     members of one key are not adjacent
    │   └── StaleIndex
    ├── EncodingError (ValueError)          a value cannot be written under its field name
    ├── DecodingError (ValueError)          a field cannot be decoded                       .url .key .k .sample
    ├── CollationError (ValueError)         samples cannot be put into one batch
    ├── UnsafeContent (ValueError)          data asks for something that only the user may do
    ├── StageError (RuntimeError)           a stage does not follow the stage protocol
    ├── StateError (ValueError)             a checkpoint does not fit the pipeline
    ├── ObsoleteException                   a function of the public library that is switched off
    └── MissingDependency (ImportError)     an extra is not installed

Every class is also the builtin (or `tarfile`) exception that a caller of the public library would have caught.
A message says what happened, where, and what to do. `Where` is completed while the error passes up: each layer adds the
parts that it knows with `located`.

An error contains no secrets and no control characters for a terminal. Its text is redacted when it is created, and so
is the exception that is being handled at that moment, with all its causes: it becomes the cause or the context of the
new error.
"""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

from webdataset.redact import printable, redacted, scrub

_SHOWN = 1000


@dataclass(frozen=True, slots=True)
class Where:
    """Where in the data an error happened; parts that are not known are None. The shard's address is redacted.

    >>> str(Where(shard="a.tar", offset=1536, key="0001"))
    'sample 0001, a.tar, byte 1536'
    >>> str(Where(shard="a.tar", member=""))  # a header without a name
    'a.tar'
    """

    stage: str | None = None
    field: str | None = None
    key: str | None = None
    member: str | None = None
    shard: str | None = None
    offset: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.shard, str):
            object.__setattr__(self, "shard", redacted(self.shard))

    def __str__(self) -> str:
        labels = {"stage": "stage ", "field": "field ", "key": "sample ", "member": "member ", "offset": "byte "}
        known = ((f.name, getattr(self, f.name)) for f in fields(self))
        return ", ".join(f"{labels.get(name, '')}{_short(value)}" for name, value in known if value not in (None, ""))


def _short(value: Any) -> str:
    """Return a text in one line, cut if it is long: a command may have 100,000 characters."""
    text = printable(str(value))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


class WebDatasetError(Exception):
    """What happened, where, and what to do.

    >>> print(WebDatasetError("checksum does not match", Where(shard="a.tar", offset=512), hint="copy it again"))
    checksum does not match – a.tar, byte 512 – copy it again
    """

    def __init__(self, what: str = "", where: Where | None = None, *, hint: str | None = None) -> None:
        what = redacted(what)
        super().__init__(what)
        self.what = what
        self.where = where or Where()
        self.hint = hint if hint is None else redacted(hint)
        handled = sys.exception()
        if handled is not None:
            scrub(handled)

    def __str__(self) -> str:
        return printable(redacted(" – ".join(part for part in (self.what, str(self.where), self.hint) if part)), "\n\t")

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
    """An argument or a shard specification is wrong."""


class FieldNotFound(SpecError, KeyError):
    """A stage names a field that a sample does not have."""


class StoreError(WebDatasetError, OSError):
    """Data could not be read or written."""

    retryable = False


class ShardNotFound(StoreError, FileNotFoundError):
    """There is no file or object of this name."""


class AccessDenied(StoreError, PermissionError):
    """Permission denied."""


class StoreTimeout(StoreError, TimeoutError):
    """The server or command did not answer in time."""

    retryable = True


class UnknownScheme(StoreError, ValueError):
    """Unknown URL scheme."""


class CommandFailed(StoreError):
    """A `pipe:` command failed."""


class FormatError(WebDatasetError, ValueError):
    """Data is not in the expected format."""


class BadHeader(FormatError, tarfile.ReadError):
    """A tar header is malformed or its checksum does not match."""


class TruncatedShard(FormatError, tarfile.ReadError):
    """The archive is truncated."""


class UnsupportedMember(FormatError, tarfile.ReadError):
    """The archive has a member of a type that cannot be a field (a sparse file, for example)."""


class DuplicateField(FormatError):
    """A sample has the same field twice."""


class SplitSample(FormatError):
    """The members of one key are not adjacent in their shard."""


class StaleIndex(FormatError):
    """An index does not fit its shard."""


class EncodingError(WebDatasetError, ValueError):
    """A value cannot be written under its field name."""


class CollationError(WebDatasetError, ValueError):
    """Samples cannot be collated into a batch, or a batch cannot be split."""


class UnsafeContent(WebDatasetError, ValueError):
    """Data asks for something that only the user may do: run code, open a command or a local file, use credentials."""


class StageError(WebDatasetError, RuntimeError):
    """A stage does not follow the stage protocol."""


class StateError(WebDatasetError, ValueError):
    """A checkpoint does not fit the pipeline."""


class ObsoleteException(WebDatasetError):
    """A function of the public library that works with ALLOW_OBSOLETE=1 only."""


class DecodingError(WebDatasetError, ValueError):
    """A field cannot be decoded; `__cause__` is the reason.

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
    """Add the known parts of `Where` to an error that passes through; parts that are set already stay.

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
    """Set the parts of `error.where` that are still unknown.

    >>> error = BadHeader("checksum does not match", Where(offset=512))
    >>> add_where(error, shard="a.tar", offset=0)
    >>> print(error)
    checksum does not match – a.tar, byte 512
    """
    missing = {name: value for name, value in known.items() if getattr(error.where, name) is None}
    error.where = replace(error.where, **missing)
