"""The errors for members that make no sample."""

from __future__ import annotations

from webdataset.decompress import too_large
from webdataset.errors import DuplicateField, FormatError, SplitSample, Where

from ._read_progress import UNKNOWN


def duplicate_field(field: str, key: str, member: str, url: str | None, offset: int) -> DuplicateField:
    """A sample holds the same field twice."""
    return DuplicateField(
        "duplicate file name in tar file: one sample holds the same field twice",
        Where(field=field, key=key, member=member, shard=url, offset=_known(offset)),
        hint="upper and lower case make no difference; rename one of the two, or keep the first with"
        " handler=ignore_and_continue",
    )


def split_sample(key: str, member: str, url: str | None, offset: int) -> SplitSample:
    """A key occurs again after another key."""
    return SplitSample(
        "the members of this sample are not adjacent in their shard",
        Where(key=key, member=member, shard=url, offset=_known(offset)),
        hint="write the shard again with `tar --sort=name`, or read the parts as samples with allow_split=True",
    )


def large_sample(key: str, size: int, url: str | None) -> FormatError:
    """The members of a sample are too large all together."""
    return too_large(f"a sample of a compressed archive has {size:,} bytes or more", Where(key=key, shard=url))


def _known(offset: int) -> int | None:
    return None if offset == UNKNOWN else offset
