"""A local directory that appears under its name complete, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from webdataset.errors import StoreError, Where
from webdataset.stores import lock_folder, sweep_folder, temporary_prefix


class StagedDirectory:
    """A temporary directory beside the target, renamed to it when it is complete.

    >>> place = Path(tempfile.mkdtemp()) / "data"
    >>> staged = StagedDirectory(str(place))
    >>> (staged.work / "a.txt").write_text("a")
    1
    >>> os.path.exists(place), staged.publish(), os.listdir(place)
    (False, None, ['a.txt'])

    Args:
        path: the directory to make.
        replaceable: called with the names in a directory that exists already: whether it may be replaced.
    """

    def __init__(self, path: str, replaceable: Callable[[list[str]], bool] = lambda names: not names) -> None:
        self._target = Path(os.path.realpath(path))
        names = [each.name for each in self._target.iterdir()] if os.path.isdir(self._target) else None
        if os.path.exists(self._target) and (names is None or not replaceable(names)):
            raise StoreError("the directory exists already", Where(shard=path), hint="remove it, or name another")
        self._target.parent.mkdir(parents=True, exist_ok=True)
        sweep_folder(str(self._target.parent), {self._target.name})
        prefix = temporary_prefix(self._target.name)
        self.work = Path(tempfile.mkdtemp(prefix=prefix, suffix=".part", dir=self._target.parent))
        self._lock = lock_folder(str(self.work))

    def publish(self) -> None:
        """Rename the directory to the target, whose former content is removed."""
        self.work.chmod(0o777 & ~_umask())
        if os.path.exists(self._target):
            aside = self.work.with_name(f"{self.work.name}.old")
            self._target.rename(aside)
            self.work.rename(self._target)
            shutil.rmtree(aside)
        else:
            self.work.rename(self._target)
        os.close(self._lock)

    def discard(self) -> None:
        """Remove the temporary directory."""
        os.close(self._lock)
        shutil.rmtree(self.work, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
