"""CRC-32C, as TFRecord files have it."""

from __future__ import annotations

from typing import Any

from webdataset.optional import require


def crc32c_function() -> Any:
    """CRC-32C of bytes, by the package that computes it in hardware."""
    return require("google_crc32c", extra="tfrecord", why="to check and write TFRecord files").value


def masked(crc: int) -> int:
    """A CRC as it is stored: rotated and shifted, so that a CRC of CRCs is no weak one.

    >>> hex(masked(0xE3069283))
    '0xc78ab0e5'
    """
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
