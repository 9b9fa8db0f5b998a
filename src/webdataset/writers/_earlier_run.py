"""Shards that an earlier run wrote with the same pattern: after a shorter run they must not be left after its own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from webdataset.errors import StoreError, WebDatasetError, Where
from webdataset.index import index_url
from webdataset.stores import is_local, scheme_of, stat


class EarlierRun:
    """The shards that exist when a writer starts, from its first number on without a gap.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for number in range(3):
    ...     open(f"{folder}/{number}.tar", "wb").close()
    >>> run = EarlierRun(folder + "/%d.tar", 0)
    >>> [Path(name).name for name in run.left_after(1)]
    ['1.tar', '2.tar']

    Of stores that are not local only the first shard is looked up at the start, and the next one at the end.
    """

    def __init__(self, pattern: str, first: int) -> None:
        self._pattern = pattern
        self._versions: dict[int, str | None] = {}
        number = first
        while (version := self._version(number)) is not None:
            self._versions[number] = version
            number += 1
            if is_local(pattern) is None:
                break

    def left_after(self, stop: int) -> list[str]:
        """The shards from number `stop` on that are still those of the earlier run."""
        if not self._versions:
            return []
        if is_local(self._pattern) is None:
            return [self._pattern % stop] if self._version(stop) is not None else []
        old = [number for number, version in self._versions.items() if number >= stop]
        return [self._pattern % number for number in old if self._version(number) == self._versions[number]]

    def refuse_or_remove(self, stop: int, index: str | None, *, overwrite: bool) -> None:
        """Remove the shards of the earlier run that are left, or raise an error about them, after the last shard."""
        left = self.left_after(stop)
        if not left:
            return
        if overwrite and is_local(self._pattern) is not None:
            for name in left:
                _remove(name, index)
            return
        raise StoreError(
            f"{len(left)} or more shards of an earlier run are left after the new ones",
            Where(shard=left[0]),
            hint="remove them, or readers mix both runs; overwrite=True removes local ones"
            " (all shards of this run were published)",
        )

    def _version(self, number: int) -> str | None:
        name = self._pattern % number
        if scheme_of(name) in {"pipe", "-"} or name == "-":
            return None
        with suppress(WebDatasetError):  # it does not exist, or the store does not support this
            found = stat(name)
            return f"{found.etag} {found.size} {found.mtime}"
        return None


def _remove(name: str, index: str | None) -> None:
    for url in (name, index_url(name, index)):
        path = is_local(url)
        if path is not None:
            Path(path).unlink(missing_ok=True)
