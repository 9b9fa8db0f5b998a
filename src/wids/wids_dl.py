"""Downloads: once, under a lock file beside the copy; the copy appears complete, or not at all."""

from __future__ import annotations

import os
import shlex
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from webdataset import stores
from webdataset.cache import download
from webdataset.child_processes import run_shell
from webdataset.errors import CommandFailed, UnknownScheme

Handler = Callable[[str, str], object] | str

recent_downloads: deque[tuple[str, str, float, float]] = deque(maxlen=1000)  # (remote, local, when, seconds)


def download_file(remote: str, local: str, handlers: Mapping[str, Handler] | None = None, verbose: bool = False) -> str:
    """Copy `remote` to the path `local`, unless it is there; returns the path.

    Args:
        remote: an address.
        local: where it goes.
        handlers: scheme → function of (remote, local), or a command with `{url}` and `{local}`; by default every store
            of `webdataset`.
        verbose: show a progress bar.
    """
    if os.path.exists(local):
        return local
    Path(local).parent.mkdir(parents=True, exist_ok=True)
    with stores.system_errors(local):
        lock = stores.lock_file(f"{local}.lock", wait=True)
    try:
        if not os.path.exists(local):
            began = time.time()
            _fetch(remote, local, handlers, verbose=verbose)
            recent_downloads.append((remote, local, began, time.time() - began))
    finally:
        lock.release()
    return local


def download_and_open(
    remote: str,
    local: str,
    mode: str = "rb",
    handlers: Mapping[str, Handler] | None = None,
    verbose: bool = False,
) -> IO[Any]:
    """Download, and open the copy."""
    return Path(download_file(remote, local, handlers, verbose)).open(mode)


def _fetch(remote: str, local: str, handlers: Mapping[str, Handler] | None, *, verbose: bool) -> None:
    if handlers is None:
        download(remote, local, verbose=verbose)
        return
    scheme = remote.partition(":")[0] if ":" in remote else "file"
    handler = handlers.get(scheme) or handlers.get("")
    if handler is None:
        raise UnknownScheme(f"no handler for {stores.scheme_of(remote)!r}", hint=f"there are {', '.join(handlers)}")
    part = f"{local}.part{os.getpid()}"
    try:
        if callable(handler):
            handler(remote, part)
        else:
            _run(handler.format(url=shlex.quote(remote), local=shlex.quote(part)))
        Path(part).replace(local)
    finally:
        Path(part).unlink(missing_ok=True)


def _run(command: str) -> None:
    status = run_shell(command)
    if status:
        raise CommandFailed(f"the command {command!r} ended with status {status}")
