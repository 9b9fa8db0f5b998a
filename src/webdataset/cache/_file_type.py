"""The kind of a file by its first bytes."""

from __future__ import annotations

from webdataset.tar import BLOCK, is_header

_MAGIC = (
    (b"\x1f\x8b", "gzip compressed data"),
    (b"BZh", "bzip2 compressed data"),
    (b"\xfd7zXZ\x00", "XZ compressed data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard compressed data"),
    (b"\x04\x22\x4d\x18", "LZ4 compressed data"),
)


def get_filetype(fname: str) -> str:
    """The kind of a file.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(bytes(1024))
    ...     file.flush()
    ...     get_filetype(file.name).split(": ")[1]
    'POSIX tar archive'
    """
    with open(fname, "rb") as file:
        return f"{fname}: {_kind(file.read(2 * BLOCK))}"


magic_filetype = get_filetype


def check_tar_format(fname: str) -> bool:
    """Whether a file begins like a tar archive, compressed or not.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"<html>not found</html>" * 100)
    ...     file.flush()
    ...     check_tar_format(file.name)
    False
    """
    with open(fname, "rb") as file:
        kind = _kind(file.read(2 * BLOCK))
    return kind.endswith(("compressed data", "tar archive"))


def _kind(head: bytes) -> str:
    if not head:
        return "empty"
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    return "POSIX tar archive" if _is_tar(head) else "data"


def _is_tar(head: bytes) -> bool:
    """Two empty blocks, the magic `ustar`, or (older archives) a correct checksum."""
    return head[257:262] == b"ustar" or head == bytes(2 * BLOCK) or is_header(head[:BLOCK])
