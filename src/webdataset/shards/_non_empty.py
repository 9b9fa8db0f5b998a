"""A stage that refuses a stream without items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar

from webdataset.errors import SpecError
from webdataset.flow import Json, Pass, Progress, Recall, Resumable

_NAMED = 3


class AnyItem(Progress):
    """Whether there was an item in this pass."""

    def __init__(self, during: Pass) -> None:
        self.during = during
        self.any = False

    def note(self, item: Any) -> Any:
        """Note that there was an item, and return it."""
        self.any = True
        return item

    def save(self) -> Json:
        """True if there was an item."""
        return self.any

    def load(self, saved: Json, recall: Recall) -> None:
        """Become what was saved."""
        self.any = bool(saved)


class _ClosingChain(chain[Any]):
    """A chain that can be closed, as the generator inside. A generator function would take time for every item."""

    source: Any

    def close(self) -> None:
        close = getattr(self.source, "close", None)
        if close is not None:
            close()


@dataclass(frozen=True)
class NonEmpty(Resumable):
    """Yield all items, and refuse a stream without items.

    >>> list(non_empty(iter([1, 2])))
    [1, 2]
    >>> list(non_empty(iter([])))
    Traceback (most recent call last):
    webdataset.errors.SpecError: the stream is empty – check the shards, the splitters and the filters before this stage
    """

    keeps_count: ClassVar[bool] = True

    def start(self, during: Pass) -> AnyItem:
        """No item yet."""
        return AnyItem(during)

    def run(self, items: Iterator[Any], at: AnyItem, /) -> Iterator[Any]:
        """Note the first item, yield the others, check at the end."""
        checked = _ClosingChain(map(at.note, islice(items, 1)), items, self._check(at))
        checked.source = items
        return checked

    def _check(self, at: AnyItem) -> Iterator[Any]:
        if not at.any:
            self.refuse(at.during)
        yield from ()

    def refuse(self, during: Pass) -> None:
        """Raise the error about a stream without items."""
        raise SpecError("the stream is empty", hint="check the shards, the splitters and the filters before this stage")


def no_samples(urls: Sequence[str]) -> SpecError:
    """The error about shards that have no samples.

    >>> print(no_samples(["a.tar", "b.tar", "c.tar", "d.tar"]))
    No samples found in dataset: a.tar, b.tar, c.tar and 1 more – check the shard spec; empty_check=False allows this
    """
    named = ", ".join(map(str, urls[:_NAMED])) + (f" and {len(urls) - _NAMED} more" if len(urls) > _NAMED else "")
    return SpecError(
        f"No samples found in dataset: {named}" if named else "No samples found in dataset",
        hint="check the shard spec; empty_check=False allows this",
    )


non_empty = NonEmpty()
