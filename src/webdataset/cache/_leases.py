"""Locks for file systems that have none: a file that only one can create, and that goes stale."""

from __future__ import annotations

import json
import os
import secrets
import time
from contextlib import suppress
from urllib.parse import quote

from webdataset.stores import process_lives

from ._boot_id import machine

# A live owner refreshes with every block it writes; a stalled connection is given up sooner (WDS_TIMEOUT).
_STALE = 120.0


class Leases:
    """Lease files in a directory.

    >>> import tempfile
    >>> leases = Leases(tempfile.mkdtemp())
    >>> leases.try_acquire("a"), leases.try_acquire("a")
    (True, False)
    >>> leases.release("a")
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._tokens: dict[str, str] = {}

    def try_acquire(self, name: str) -> bool:
        """Create the lease, after removing one whose owner is gone."""
        path, token = self._path(name), secrets.token_hex(8)
        if self._stale(path):
            self._remove(path)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "w") as file:
            json.dump({"token": token, "machine": machine(), "process": os.getpid()}, file)
        self._tokens[name] = token
        return True

    def release(self, name: str) -> None:
        """Remove the lease, if it is still ours."""
        token = self._tokens.pop(name)
        if _read(self._path(name)).get("token") == token:
            with suppress(FileNotFoundError):
                os.unlink(self._path(name))

    def refresh(self, name: str) -> None:
        """Make the lease young again."""
        with suppress(OSError):
            os.utime(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, f"{quote(name, safe='')[-150:]}.lease")

    def _stale(self, path: str) -> bool:
        try:
            age = time.time() - os.stat(path).st_mtime
        except OSError:
            return False
        owner = _read(path)
        if owner.get("machine") == machine() and "process" in owner:
            return not process_lives(owner["process"])
        return age > _STALE

    def _remove(self, path: str) -> None:
        """Renaming is atomic: of several who find the same stale lease, one wins, and it checks what it got."""
        taken, stale = f"{path}.{secrets.token_hex(4)}", _read(path)
        with suppress(FileNotFoundError):
            os.rename(path, taken)
            if _read(taken) != stale:
                with suppress(OSError):  # it was renewed in between; if somebody has it by now, let them
                    os.link(taken, path)
            os.unlink(taken)


def _read(path: str) -> dict[str, object]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
