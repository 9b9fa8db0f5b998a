"""`TemporaryFolder`: nothing stays where it cannot be made."""

import errno

import pytest

from webdataset.errors import StoreError
from webdataset.stores import TemporaryFolder, _temporary_folder


def test_a_folder_that_cannot_be_locked_does_not_stay(tmp_path, monkeypatch):
    """Mutation: leave the folder to the garbage collection."""

    def fail(name):
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(_temporary_folder, "lock_folder", fail)
    with pytest.raises(StoreError, match="ulimit"):
        TemporaryFolder(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
