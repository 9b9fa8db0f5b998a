"""The classes of a format: parts that are read as records, and a sink that writes samples.

A record is a dict: names as the format has them, values as Python and NumPy have them. A part is one file of a dataset
(a TFRecord file, a parquet file, a shard of MDS). Everything that differs between formats is in a subclass of `Format`;
reading in a pipeline, converting and guessing field names are written once, against these classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Protocol, Self

from webdataset import shards, stores
from webdataset.address import like
from webdataset.errors import FormatError, SpecError, UnsafeContent, WebDatasetError, Where, add_where
from webdataset.redact import hides_secrets
from webdataset.stores import close_or_abort

Record = dict[str, Any]
Schema = dict[str, str]  # name of a field → its type in the words of the format


@hides_secrets
@dataclass(frozen=True, slots=True)
class Part:
    """One file of a dataset, with its entry in the dataset's own index.

    >>> Part("train-00000.parquet").url
    'train-00000.parquet'
    """

    url: str
    details: Any = None


class RecordFile(stores.Closing, ABC):
    """One part, open for reading."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of records, exact."""

    @abstractmethod
    def records(self, start: int = 0) -> Iterator[Record]:
        """The records from number `start` on."""

    def __getitem__(self, number: int) -> Record:
        """One record. Formats without random access read up to it."""
        for record in self.records(number):
            return record
        raise IndexError(f"record {number} of {len(self)}")

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    @property
    def schema(self) -> Schema | None:
        """The fields and their types, where the file itself states them."""
        return None

    def close(self) -> None:
        """Release what is open."""


class IndexedFile(RecordFile):
    """One part whose records can be read by number."""

    _url: str

    @abstractmethod
    def record(self, number: int) -> Record:
        """The record with this number, which is in range."""

    def records(self, start: int = 0) -> Iterator[Record]:
        """The records from number `start` on."""
        return (self[number] for number in range(start, len(self)))

    def __getitem__(self, number: int) -> Record:
        """One record."""
        if not 0 <= number < len(self):
            raise IndexError(f"record {number} of {len(self)}")
        with damage_of("it", self._url, number):
            return self.record(number)


class RecordSink(Protocol):
    """Writes samples to one file or directory, which `close()` publishes complete; otherwise it never appears."""

    @abstractmethod
    def write(self, sample: Record) -> int:
        """Write one sample; returns about how many bytes it takes."""

    @abstractmethod
    def close(self) -> None:
        """Complete and publish."""

    @abstractmethod
    def abort(self) -> None:
        """Discard what has not been published."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, /, *failure: object) -> None:
        close_or_abort(self, kind, *failure)


class Format(ABC):
    """One kind of dataset. Subclasses are frozen dataclasses; their attributes are the options of the format."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    by_extension: ClassVar[bool] = False  # a field's type is given by its name, as in tar shards
    repeated: ClassVar[bool] = False  # every value is a list; one value is a list of one
    directory: ClassVar[bool] = False  # a dataset is a directory, and is written as a whole

    @property
    def writes(self) -> bool:
        """Whether it can be written."""
        return type(self).create is not Format.create

    def parts(self, source: Any) -> list[Part]:
        """The files of a dataset, in order."""
        return [Part(url) for url in shards.expand(source)]

    @abstractmethod
    def open(self, part: Part) -> RecordFile:
        """Open one part for reading."""

    def create(self, url: str) -> RecordSink:
        """Begin to write one file, or one directory."""
        raise SpecError(f"{self.name} cannot be written", Where(shard=url), hint="choose another format to write")


def training_parts(source: Any, is_part: Callable[[str], object], tests: str) -> list[Part]:
    """The files that are named, or those of a directory: without those that begin with `tests`, if there are others."""
    urls = shards.expand(source)
    if len(urls) == 1 and not is_part(urls[0]):
        found = [url for url in stores.list_urls(like(urls[0], f"{urls[0].rstrip('/')}/*")) if is_part(url)]
        urls = [url for url in found if not url.rpartition("/")[2].startswith(tests)] or found
    return [Part(url) for url in urls]


def reason(error: Exception) -> str:
    """The message of an error, without its location, which the caller adds.

    >>> reason(FormatError("the array is damaged", Where(offset=3))), reason(KeyError("x"))
    ('the array is damaged', "KeyError: 'x'")
    """
    if isinstance(error, WebDatasetError):
        return error.what
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


@contextmanager
def damage_of(what: str, url: str, number: int | None = None) -> Iterator[None]:
    """Turn every exception inside the block into an error that names the file.

    All classes of exceptions: no library documents which ones it raises for damaged files.

    >>> with damage_of("the index", "data/index.json"):
    ...     {}["shards"]
    Traceback (most recent call last):
    webdataset.errors.FormatError: the index is damaged: KeyError: 'shards' – data/index.json – copy it again
    """
    try:
        yield
    except WebDatasetError:
        raise
    except Exception as error:
        raise bad_record(f"{what} is damaged: {reason(error)}", url, number, hint="copy it again") from error


@contextmanager
def closing_on_error(opened: Any) -> Iterator[None]:
    """Close what is open if the block raises; otherwise it stays open."""
    try:
        yield
    except BaseException:
        opened.close()
        raise


@contextmanager
def recognized(opened: Any, url: str, kind: str) -> Iterator[None]:
    """Close a file that cannot be opened as one of its kind.

    >>> import io, zipfile
    >>> with recognized(io.BytesIO(), "a.zip", "a zip archive"):
    ...     zipfile.ZipFile(io.BytesIO(b"hello"))
    Traceback (most recent call last):
    webdataset.errors.FormatError: not a zip archive: File is not a zip file – a.zip – copy it again
    """
    with closing_on_error(opened):
        try:
            yield
        except WebDatasetError:
            raise
        except Exception as error:
            raise FormatError(
                f"not {kind}: {str(error) or type(error).__name__}", Where(shard=url), hint="copy it again"
            ) from error


def check_equal_rows(lengths: dict[str, int | None], url: str, hint: str) -> None:
    """Refuse arrays that do not have one row per sample: `lengths` are the rows of each, None for a single number."""
    if len(set(lengths.values())) != 1 or None in lengths.values():
        raise FormatError(f"the arrays do not have equally many rows: {lengths}", Where(shard=url), hint=hint)


def raise_undecodable(error: Exception, what: str, url: str, number: int, offset: int) -> NoReturn:
    """Turn an exception of a decoder into an error that names the record; `UnsafeContent` keeps its class."""
    if isinstance(error, UnsafeContent):
        add_where(error, shard=url, offset=offset)
        raise error
    raise bad_record(f"{what}: {reason(error)}", url, number, offset) from error


def bad_record(
    what: str, url: str, number: int | None = None, offset: int | None = None, *, hint: str | None = None
) -> FormatError:
    """The error for a record that cannot be read.

    >>> print(bad_record("the checksum does not match", "a.tfrecord", 3, 512))
    record 3: the checksum does not match – a.tfrecord, byte 512
    """
    text = what if number is None else f"record {number}: {what}"
    return FormatError(text, Where(shard=url, offset=offset), hint=hint)
