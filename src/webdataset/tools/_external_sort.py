"""Sort more samples than fit into memory: sorted runs in temporary files, merged."""

from __future__ import annotations

import heapq
import marshal
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from webdataset import stores
from webdataset.errors import SpecError

from ._read_inputs import Sample
from ._scratch import scratch_folder

# (sort key, tie-break by position, sample)
Row = tuple[Any, int, Sample]

# So many runs are merged at a time: each needs an open file and a buffer.
_FAN_IN = 64
_BUFFER = 1 << 18
# What a field costs in memory besides its bytes.
_OVERHEAD = 200


def external_sort(
    rows: Iterable[tuple[Any, Sample]], *, memory: int, reverse: bool = False, folder: str | None = None
) -> Iterator[Sample]:
    """The samples in the order of their keys; samples with equal keys stay in the order they came in.

    >>> rows = [(key, {"__key__": f"{key}{n}", "txt": b"x" * 100}) for n, key in enumerate("bab")]
    >>> [sample["__key__"] for sample in external_sort(rows, memory=1)]
    ['a1', 'b0', 'b2']

    Args:
        rows: (key, sample); the samples are of bytes.
        memory: how many bytes of samples are held at a time.
        reverse: the largest key first.
        folder: where the temporary files go.
    """
    with ExitStack() as stack:
        runs = _Runs(stack, folder, reverse=reverse)
        held: list[Row] = []
        size = 0
        for number, (key, sample) in enumerate(rows):
            kept = {field: data for field, data in sample.items() if field == "__key__" or field[:1] != "_"}
            held.append((key, -number if reverse else number, kept))
            size += sum(len(data) + _OVERHEAD for data in kept.values())
            if size >= memory:
                runs.add(_sorted(held, reverse=reverse))
                held, size = [], 0
        last = _sorted(held, reverse=reverse)
        with closing(_merged([*map(_load, runs.paths), iter(last)], reverse=reverse)) as merged:
            for _, _, sample in merged:
                yield sample


class _Runs:
    """Sorted runs in temporary files; the folder is made for the first one."""

    def __init__(self, stack: ExitStack, folder: str | None, *, reverse: bool) -> None:
        self.paths: list[Path] = []
        self._stack, self._folder, self._reverse = stack, folder, reverse
        self._place: Path | None = None
        self._made = 0

    def add(self, rows: Iterable[Row]) -> None:
        """One more run; many are merged into one."""
        self.paths.append(_store(rows, self._next()))
        if len(self.paths) >= _FAN_IN:
            with closing(_merged([_load(path) for path in self.paths], reverse=self._reverse)) as merged:
                long = _store(merged, self._next())
            for path in self.paths:
                path.unlink()
            self.paths = [long]

    def _next(self) -> Path:
        if self._place is None:
            self._place = self._stack.enter_context(scratch_folder(self._folder))
        self._made += 1
        return self._place / f"{self._made}.run"


def _sorted(rows: list[Row], *, reverse: bool) -> list[Row]:
    try:
        rows.sort(reverse=reverse)
    except TypeError as error:
        raise _incomparable(error) from error
    return rows


def _merged(runs: list[Iterator[Row]], *, reverse: bool) -> Generator[Row, None, None]:
    try:
        yield from heapq.merge(*runs, reverse=reverse)
    except TypeError as error:
        raise _incomparable(error) from error
    finally:
        for run in runs:
            if hasattr(run, "close"):
                run.close()


def _incomparable(error: TypeError) -> SpecError:
    return SpecError(
        f"the samples cannot be sorted, their keys are of different kinds: {error}",
        hint="make them one kind: --by 'str(...)' or --by 'int(...)'",
    )


def _store(rows: Iterable[Row], path: Path) -> Path:
    # marshal, not pickle: it knows plain values only, and is twice as fast. The file is ours and short-lived.
    with stores.system_errors(str(path)), path.open("wb", buffering=_BUFFER) as file:
        for row in rows:
            marshal.dump(row, file)
    return path


def _load(path: Path) -> Iterator[Row]:
    with stores.system_errors(str(path)), path.open("rb", buffering=_BUFFER) as file:
        while True:
            try:
                row: Row = marshal.load(file)  # noqa: S302 - written above
            except EOFError:
                return
            yield row
