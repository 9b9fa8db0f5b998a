"""How many samples shards have, for outputs of a given number of shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from webdataset import stores
from webdataset.errors import SpecError
from webdataset.index import build_index, load_count

from ._output_target import is_stream
from ._temporary_files import fetch, scratch_folder


@contextmanager
def shard_counts(urls: Sequence[str], shards: int | None) -> Iterator[tuple[list[str], tuple[int, ...] | None]]:
    """The addresses to read, and the number of samples of each of `shards` outputs; None if `shards` is None.

    >>> with shard_counts(["a.tar"], None) as found:
    ...     found
    (['a.tar'], None)

    Inputs that can be read only once, such as standard input or a command, are copied to temporary files first.
    """
    if shards is None:
        yield list(urls), None
        return
    if shards < 1:
        raise SpecError(f"expected at least one shard, got {shards}")
    with scratch_folder() as folder:
        kept = [fetch(url, folder / f"{n}.tar") if is_stream(url) else url for n, url in enumerate(urls)]
        total = sum(count_samples(url) for url in kept)
        if total < shards:
            raise SpecError(f"{total} samples cannot fill {shards} shards", hint=f"ask for at most {total}")
        yield kept, tuple(even_counts(total, shards))


def even_counts(total: int, parts: int) -> list[int]:
    """Equal parts of a total, one more in some of them.

    >>> even_counts(10, 4)
    [2, 3, 2, 3]
    """
    return [total * (part + 1) // parts - total * part // parts for part in range(parts)]


def count_samples(url: str) -> int:
    """The number of samples of a shard: from its index if there is one, else by reading its headers."""
    count = load_count(url) if stores.is_local(url) is None else None
    return len(build_index(url)) if count is None else count
