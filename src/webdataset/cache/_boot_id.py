"""Which machine this is, since its last start: what a killed process left behind can be trusted only there."""

from __future__ import annotations

import os
import socket
from functools import lru_cache


@lru_cache(maxsize=1)
def machine() -> str:
    """Host name, boot and process namespace.

    Pages that were not on the disk when the power failed belong to another boot; in another namespace, as containers of
    one host are, a number names another process.

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
