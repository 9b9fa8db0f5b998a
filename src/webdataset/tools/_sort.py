"""`sort` and `shuffle`: all samples in another order, also of a dataset that is larger than memory."""

from __future__ import annotations

import heapq
import marshal
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from webdataset import stores
from webdataset.arguments import require_choice
from webdataset.errors import FormatError, SpecError
from webdataset.flow import digest

from ._expression import Expression
from ._read_inputs import Inputs, Sample, where_of
from ._report import Report
from ._run_stages import transform
from ._temporary_files import scratch_folder
from ._verb_options import DEFAULTS, Options

MEMORY = 512_000_000


def sort_samples(
    samples: Iterator[Sample], *, by: str, reverse: bool, missing: str, memory: int, folder: str | None
) -> Iterator[Sample]:
    """All samples, sorted by an expression; a stage.

    >>> samples = iter([{"__key__": "a", "cls": b"10"}, {"__key__": "b", "cls": b"9"}])
    >>> options = {"reverse": False, "missing": "error", "memory": MEMORY, "folder": None}
    >>> [sample["__key__"] for sample in sort_samples(samples, by="cls", **options)]
    ['b', 'a']
    """
    rows = _rows(samples, by, missing, reverse=reverse)
    return external_sort(rows, memory=memory, reverse=reverse, folder=folder)


def _rows(samples: Iterator[Sample], by: str, missing: str, *, reverse: bool) -> Iterator[tuple[Any, Sample]]:
    evaluate = Expression(by)
    for sample in samples:
        value = evaluate(sample)
        if value is None and missing == "error":
            raise FormatError(
                f"the sample has no value for {by!r}",
                where_of(sample),
                hint="put such samples first or last: --missing last",
            )
        # Reversing the order must not move "first" to the end, or "last" to the beginning.
        group = (1 if value is not None else 0 if missing == "first" else 2) * (-1 if reverse else 1)
        yield ((group,) if value is None else (group, value)), sample


def shuffle_samples(
    samples: Iterator[Sample], *, seed: int, memory: int = MEMORY, folder: str | None = None
) -> Iterator[Sample]:
    """All samples in a random order: each possible order is equally likely; a stage.

    >>> [sample["__key__"] for sample in shuffle_samples(iter([{"__key__": key} for key in "abcdef"]), seed=1)]
    ['d', 'e', 'b', 'a', 'c', 'f']

    The samples are sorted by a random number each, which seed and position decide.
    """
    rows = ((digest("shuffle", seed, number), sample) for number, sample in enumerate(samples))
    return external_sort(rows, memory=memory, folder=folder)


def sort(
    inputs: Inputs,
    output: str | os.PathLike[str],
    options: Options = DEFAULTS,
    *,
    by: str = "key",
    reverse: bool = False,
    missing: str = "error",
    memory: int = MEMORY,
    folder: str | None = None,
) -> Report:
    """Write the samples in the order of an expression; samples that are equal in it keep their order.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-sort/a.tar", [{"__key__": k, "cls": len(k)} for k in ("aa", "bbb", "c")])
    >>> sort(shard, "memory://doc-sort/b.tar", by="cls").samples_out
    3

    Args:
        inputs: shards. With one output for each input, each shard is sorted by itself.
        output: one archive, a series, or a folder.
        options: how to write and run.
        by: the sort key, an expression: `key`, `cls`, `json.score`, `int(txt)`.
        reverse: the largest first.
        missing: samples whose sort key is None: "error", or come "first" or "last".
        memory: how many bytes of samples are held at a time.
        folder: where temporary files go.
    """
    Expression(by)  # an invalid expression is refused here
    require_choice("missing", missing, ("error", "first", "last"))
    stage = partial(sort_samples, by=by, reverse=reverse, missing=missing, memory=memory, folder=folder)
    parts = by.split(".")  # of `json.size.width`, which may be a field or a value in one
    field = ",".join(".".join(parts[:end]) for end in range(len(parts), 0, -1))
    named = [field] if all(map(str.isidentifier, parts)) and by not in {"key", "shard"} else []
    return transform([stage], inputs, output, options, job=f"sort {by} {reverse} {missing}", named=named)


def shuffle(
    inputs: Inputs,
    output: str | os.PathLike[str],
    options: Options = DEFAULTS,
    *,
    memory: int = MEMORY,
    folder: str | None = None,
) -> Report:
    """Write the samples in a random order: a full permutation, decided by `options.seed`.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-shuffle/a.tar", [{"__key__": key, "txt": key} for key in "abc"])
    >>> shuffle(shard, "memory://doc-shuffle/b.tar").samples_out
    3

    Args:
        inputs: shards. With one output for each input, each shard is shuffled by itself.
        output: one archive, a series, or a folder.
        options: how to write and run.
        memory: how many bytes of samples are held at a time.
        folder: where temporary files go.
    """
    stage = partial(shuffle_samples, seed=options.seed, memory=memory, folder=folder)
    return transform([stage], inputs, output, options, job=f"shuffle {options.seed}")


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
        new_paths, runs = _run_paths(stack, folder), list[Path]()
        held: list[Row] = []
        size = 0
        for number, (key, sample) in enumerate(rows):
            kept = {field: data for field, data in sample.items() if field == "__key__" or field[:1] != "_"}
            held.append((key, -number if reverse else number, kept))
            size += sum(len(data) + _OVERHEAD for data in kept.values())
            if size >= memory:
                runs.append(_store(_sorted(held, reverse=reverse), next(new_paths)))
                held, size = [], 0
                if len(runs) == _FAN_IN:
                    runs = [_merge_runs(runs, next(new_paths), reverse=reverse)]
        last = _sorted(held, reverse=reverse)
        with closing(_merged([*map(_load, runs), iter(last)], reverse=reverse)) as merged:
            for _, _, sample in merged:
                yield sample


def _run_paths(stack: ExitStack, folder: str | None) -> Iterator[Path]:
    """Paths for sorted runs in a temporary folder, which is made for the first one."""
    place = stack.enter_context(scratch_folder(folder))
    for number in count():
        yield place / f"{number}.run"


def _merge_runs(runs: list[Path], path: Path, *, reverse: bool) -> Path:
    """Merge runs into one at `path`, and delete them."""
    with closing(_merged(list(map(_load, runs)), reverse=reverse)) as merged:
        _store(merged, path)
    for run in runs:
        run.unlink()
    return path


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
    # marshal, not pickle: it stores plain values only, and is twice as fast. The file is ours and short-lived.
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
