"""Join samples whose fields are in several datasets."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from webdataset.arguments import require_choice, require_count
from webdataset.describe import Described, call
from webdataset.errors import FormatError, SpecError, Where

Sample = dict[str, Any]

# With missing="drop", how many samples a dataset may be ahead of another. A thousand decoded images are about 600 MB.
_WINDOW = 1000


@dataclass(frozen=True, repr=False, eq=False, init=False)
class JoinColumns(Described):
    """Iterate over parallel datasets and merge the samples that have the same key: a source for a pipeline.

    >>> images = [{"__key__": "a", "jpg": b"1"}, {"__key__": "b", "jpg": b"2"}]
    >>> labels = [{"__key__": "a", "cls": 1}, {"__key__": "b", "cls": 2}]
    >>> list(JoinColumns(images, labels))
    [{'__key__': 'a', 'jpg': b'1', 'cls': 1}, {'__key__': 'b', 'jpg': b'2', 'cls': 2}]

    Each dataset takes the part of this process, so parallel shards stay parallel as long as the datasets have the same
    shards in the same order and are split alike; keys that differ are an error, never a wrong pair. Shuffle after
    joining. A pipeline that begins with a join resumes by reading it again up to where it was.

    Args:
        sources: the datasets; the first one decides about order, `__url__` and other meta fields.
        missing: "error" if all have the same samples in the same order; "drop" if the order is the same and samples
            that are not everywhere are to be left out.
        conflict: what to do if two datasets have the same field: "error", or keep the "first" or the "last".
        window: with `missing="drop"`, how many samples one dataset may be ahead of another.
    """

    verb: ClassVar[str] = "join_columns"
    sources: tuple[Iterable[Sample], ...] = field(repr=False)
    missing: str = "error"
    conflict: str = "error"
    window: int = _WINDOW

    def __init__(
        self, *sources: Iterable[Sample], missing: str = "error", conflict: str = "error", window: int = _WINDOW
    ) -> None:
        if len(sources) < 2 or not all(hasattr(source, "__iter__") for source in sources):
            raise SpecError("join_columns() needs at least two datasets that can be iterated")
        require_choice("missing", missing, ("error", "drop"))
        require_choice("conflict", conflict, ("error", "first", "last"))
        window = require_count("join_columns", "window", window, least=1)
        self._set(sources=sources, missing=missing, conflict=conflict, window=window)

    def __repr__(self) -> str:
        return call("join_columns", *[type(source) for source in self.sources], missing=self.missing)

    def __iter__(self) -> Iterator[Sample]:
        return self.of_streams(self.sources)

    def of_streams(self, streams: Sequence[Iterable[Sample]]) -> Iterator[Sample]:
        """The same join of these streams, which stand for the datasets."""
        return join_samples(streams, missing=self.missing, conflict=self.conflict, window=self.window)

    def __call__(self) -> Iterator[Sample]:
        """Run as the first stage of a pipeline."""
        return iter(self)


def join_samples(
    streams: Sequence[Iterable[Sample]], *, missing: str = "error", conflict: str = "error", window: int = _WINDOW
) -> Iterator[Sample]:
    """Merge samples with the same key out of several streams.

    >>> left = [{"__key__": "a", "x": 1}, {"__key__": "b", "x": 2}]
    >>> list(join_samples([left, [{"__key__": "b", "y": 3}]], missing="drop"))
    [{'__key__': 'b', 'x': 2, 'y': 3}]
    """
    first, *others = [iter(stream) for stream in streams]
    if missing == "error":
        yield from _in_step(first, others, conflict)
        return
    lookups = [_Lookup(other, window) for other in others]
    for sample in first:
        found = [other for lookup in lookups if (other := lookup.find(sample["__key__"])) is not None]
        if len(found) == len(others):
            yield _merged([sample, *found], conflict)


def _in_step(first: Iterator[Sample], others: list[Iterator[Sample]], conflict: str) -> Iterator[Sample]:
    nothing: Sample = {}
    for sample in first:
        found = [sample, *[next(other, nothing) for other in others]]
        if any(joined.get("__key__") != sample["__key__"] for joined in found):
            raise _disagreement(found)
        yield _merged(found, conflict)
    found = [nothing, *[next(other, nothing) for other in others]]
    if any(found):
        raise _disagreement(found)


def _disagreement(found: list[Sample]) -> FormatError:
    keys = [repr(sample["__key__"]) if sample else "at its end" for sample in found]
    return FormatError(
        f"the datasets to join are not parallel: {' · '.join(keys)}",
        Where(shard=next((sample["__url__"] for sample in found if "__url__" in sample), None)),
        hint="use the same shards in the same order for all, or join_columns(missing='drop')",
    )


def _merged(samples: list[Sample], conflict: str) -> Sample:
    merged = dict(samples[0])
    for sample in samples[1:]:
        for name, value in sample.items():
            if name.startswith("__"):
                merged.setdefault(name, value)
            elif name not in merged or conflict == "last":
                merged[name] = value
            elif conflict == "error":
                raise FormatError(
                    "two of the datasets to join have this field",
                    Where(field=name, key=sample.get("__key__")),
                    hint="rename it, or choose join_columns(conflict='first') or 'last'",
                )
    return merged


class _Lookup:
    """A stream in which a key is looked up within a window. Samples before a key that was found are dropped."""

    def __init__(self, stream: Iterator[Sample], window: int) -> None:
        self._stream, self._window = stream, window
        self._ahead: OrderedDict[str, Sample] = OrderedDict()
        self._misses = 0

    def find(self, key: str) -> Sample | None:
        """The sample with this key, or None if it does not come within the window."""
        while key not in self._ahead:
            sample = next(self._stream, None) if len(self._ahead) < self._window else None
            if sample is None:
                self._miss(key)
                return None
            self._ahead[sample["__key__"]] = sample
        self._misses = 0
        while True:
            name, sample = self._ahead.popitem(last=False)
            if name == key:
                return sample

    def _miss(self, key: str) -> None:
        self._misses += 1
        if self._misses > self._window and len(self._ahead) >= self._window:
            raise FormatError(
                f"the datasets to join have no key in common over {self._window} samples",
                Where(key=key),
                hint="use the same shards in the same order for all, or a larger window",
            )
