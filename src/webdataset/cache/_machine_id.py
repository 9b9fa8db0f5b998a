"""The identity of this machine since its last boot: parts of killed processes can be trusted only on the same one."""

from __future__ import annotations

import hashlib
import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def machine() -> str:
    """Host name, boot and process namespace.

    After a reboot a file may lack bytes that were not written to the disk. In another namespace, as in containers of
    one host, the same process number means another process.

    >>> machine() == machine()
    True
    """
    boot = namespace = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return f"{socket.gethostname()}/{boot}/{namespace}"


def short_machine() -> str:
    """The same, short enough for a file name.

    >>> len(short_machine())
    8
    """
    return hashlib.sha256(machine().encode()).hexdigest()[:8]
