"""The identity of this machine since its last boot: parts of killed processes can be trusted only there."""

from __future__ import annotations

import os
import socket
from functools import lru_cache


@lru_cache(maxsize=1)
def machine() -> str:
    """Host name, boot and process namespace.

    After another boot a file may lack what was not written to the disk. In another namespace, as in containers of one
    host, the same number is another process.

    >>> machine() == machine()
    True
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        boot = ""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return f"{socket.gethostname()}/{boot}/{namespace}"
