"""What a survey finds: members of any type, and damage between them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DamageKind(StrEnum):
    """How an archive can be damaged."""

    EMPTY = "empty-file"
    NOT_TAR = "not-tar"
    BAD_CHECKSUM = "bad-checksum"
    BAD_HEADER = "bad-header"
    BAD_EXTENSION = "bad-extension"
    MISALIGNED = "misaligned"
    WIPED_HEADER = "wiped-header"
    SPARSE = "sparse-member"
    CUT_HEADER = "cut-in-header"
    CUT_PAYLOAD = "cut-in-payload"
    CUT_PADDING = "cut-in-padding"
    NO_END = "no-end-mark"
    HALF_END = "half-end-mark"
    GARBAGE = "garbage-after-end"
    CONCATENATED = "concatenated-archives"
    CUT_COMPRESSION = "cut-compression"
    BAD_COMPRESSION = "bad-compression"


@dataclass(frozen=True, slots=True)
class Damage:
    """Something wrong with the archive itself.

    Attributes:
        kind: what kind of damage.
        what: the same in words.
        offset: the byte where it begins.
        name: the member that is lost by it, if its name could be read.
        loses: whether members may be lost by it.
        data: what is there in place of that member's payload, if that is known.
    """

    kind: DamageKind
    what: str
    offset: int
    name: str | None = None
    loses: bool = True
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A member as the survey finds it: of any type, with its payload if its type has one.

    Attributes:
        name: the whole name, with extended headers applied.
        offset: where its first header block begins.
        data_offset: where its payload begins.
        kind: the type flag, such as b"0" for a file and b"2" for a symbolic link.
        link: what a link points to.
        data: the payload.
        gnu_long: whether the name is in a GNU long-name header.
    """

    name: str
    offset: int
    data_offset: int
    kind: bytes
    link: str
    data: bytes
    gnu_long: bool = False
