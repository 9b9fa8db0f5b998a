"""Reading an archive to its end, whatever that is."""

import tarfile

import pytest

from webdataset.errors import FormatError
from webdataset.tar import read_members

FORMATS = pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
WINDOWS = [512, 1024, 8192, 10240, 1 << 20]


def outcome(archive, **options):
    """Everything that comes out: members, skipped ones, and the error."""
    members, skipped = [], []
    try:
        for member in read_members(archive, on_skip=lambda header, offset: skipped.append((header, offset)), **options):
            members.append(member)
    except FormatError as error:
        return members, skipped, type(error), str(error)
    return members, skipped, None, None
