"""The shards of a directory: a plain listing, or, on request, claiming files that other processes put there.

Claiming is for many readers and writers that share nothing but a directory: a reader renames a file to
`name._<pid>_`, so no other process takes it, and afterwards renames it back, deletes it or marks it as done. It changes
the user's files, so it happens only with a `mode`.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from webdataset import stores
from webdataset.arguments import require_choice
from webdataset.errors import SpecError
from webdataset.flow import Drawn
from webdataset.redact import hides_secrets

from ._glob_with_braces import fnmatch_with_braces, glob_with_braces
from ._shard_source import ShardSource, Taken

DEFAULT_PATTERN = "*.{tar,tgz,tar.tgz,tar.gz,tar.bz2,tar.xz,tar.zst}"

_CLAIMED = re.compile(r"\._(\d+)_$")
_MODES = ("resample", "keep", "unlink")
_CHOICES = ("random", "oldest")


@hides_secrets
@dataclass(eq=False)  # not frozen: `.epoch` counts the passes
class DirectoryShardList(ShardSource):
    """The shards of a directory.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "b.tar").touch(), pathlib.Path(folder, "a.tar").touch()
    ...     [pathlib.Path(shard["url"]).name for shard in DirectoryShardList(folder + "/")]
    ['a.tar', 'b.tar']

    Args:
        path: a directory, local or of any store that can list.
        pattern: which names count; braces are allowed.
        poll: with a mode, seconds between two listings of an empty directory; None ends the stream instead.
        timeout: with a mode, seconds without a file after which the stream ends.
        mode: None only lists the files. "resample" claims a file, uses it and renames it back; "keep" renames it to
            `name._done_`; "unlink" deletes it.
        select: with a mode, which file is taken next: "random" or "oldest".
        fate: with a mode, a function that is called with the claimed path instead of what the mode says.
    """

    path: str | PathLike[str]
    pattern: str = DEFAULT_PATTERN
    poll: float | None = 1
    timeout: float = 1e12
    mode: str | None = None
    select: str = "random"
    fate: Callable[[str], Any] | None = None

    def __post_init__(self) -> None:
        self.path = stores.as_address(self.path)
        if self.mode is None:
            return
        require_choice("mode", self.mode, _MODES)
        require_choice("select", self.select, _CHOICES)
        if not os.path.isdir(self.path):
            raise SpecError(f"{self.path!r} is not a directory", hint="files can be claimed in a local directory only")

    def run(self, items: Iterator[Any], at: Taken, /) -> Iterator[dict[str, Any]]:
        """The listing, or what can be claimed."""
        if self.mode is None:
            for url in self._listing()[at.taken :]:
                yield at.take(url)
        else:
            yield from self._claims(at)

    def _listing(self) -> list[str]:
        folder = os.fspath(self.path).rstrip("/") + "/"
        urls = stores.list_urls(folder)
        found = sorted(url for url in urls if fnmatch_with_braces(url.rsplit("/", 1)[-1], self.pattern))
        if not found:
            raise SpecError(
                f"no shard in {self.path!r} matches {self.pattern!r}", hint="check the directory and the pattern"
            )
        return found

    def _claims(self, at: Taken) -> Iterator[dict[str, Any]]:
        since = time.monotonic()
        while True:
            self.recycle_dead()
            claimed = self._claim(at)
            if claimed is not None:
                try:
                    yield at.take(Drawn(claimed, at.taken) if self.mode == "resample" else claimed)
                finally:
                    self._recycle(claimed)
                since = time.monotonic()
            elif self.poll is None or time.monotonic() - since > self.timeout:
                return
            else:
                threading.Event().wait(self.poll)

    def _claim(self, at: Taken) -> str | None:
        names = glob_with_braces(str(Path(self.path) / self.pattern))
        if self.select == "oldest":
            names = sorted(names, key=_modified)
        else:
            at.during.rng("directory", at.taken, *at.during.world.part).shuffle(names)
        for name in names:
            claimed = f"{name}._{os.getpid()}_"
            try:
                Path(name).rename(claimed)
            except FileNotFoundError:
                continue  # another process was faster
            return claimed
        return None

    def _recycle(self, claimed: str) -> None:
        if self.fate is not None:
            self.fate(claimed)
        elif self.mode == "unlink":
            Path(claimed).unlink()
        elif self.mode == "keep":
            Path(claimed).rename(without_last_extension(claimed) + "._done_")
        else:
            Path(claimed).rename(without_last_extension(claimed))

    def recycle_dead(self) -> None:
        """Rename back the files that processes that no longer run had claimed."""
        for name in glob_with_braces(str(Path(self.path) / f"{self.pattern}._*_")):
            pid = get_pid_from_filename(name)
            if pid is not None and not check_pid_is_running(pid):
                Path(name).rename(without_last_extension(name))


def without_last_extension(name: str) -> str:
    """A name without the text after its last dot.

    >>> without_last_extension("dir/a.tar._12_")
    'dir/a.tar'
    """
    return name[: len(name) - len(Path(name).suffix)]


def get_pid_from_filename(name: str) -> int | None:
    """The process that claimed a file, or None.

    >>> get_pid_from_filename("dir/a.tar._12_"), get_pid_from_filename("dir/a.tar._done_")
    (12, None)
    """
    match = _CLAIMED.search(name)
    return int(match.group(1)) if match else None


def check_pid_is_running(pid: int) -> bool:
    """Whether a process of this number is running on this machine.

    >>> check_pid_is_running(os.getpid())
    True
    """
    return stores.process_lives(pid)


def _modified(name: str) -> float:
    try:
        return Path(name).stat().st_mtime
    except FileNotFoundError:
        return 0.0
