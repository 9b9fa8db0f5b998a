"""A forked child (a DataLoader worker, say) must not touch what its parent is writing."""

import os

import pytest

import webdataset as wds
from webdataset import stores


def in_a_child(action):
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def leave_normally():
    """What an ordinary exit does: drop every object, flush every buffer."""
    import gc

    gc.collect()


def drop(holder):
    holder.clear()
    leave_normally()


@pytest.mark.parametrize("size", [10, 100_000], ids=["in the buffer", "in the file"])
def test_a_child_that_drops_its_copy_of_an_upload_leaves_the_parents_alone(tmp_path, size):
    holder = [stores.open_write(str(tmp_path / "a.bin"))]
    holder[0].write(b"a" * size)
    in_a_child(lambda: drop(holder))
    holder[0].write(b"b" * size)
    holder.pop().close()
    assert (tmp_path / "a.bin").read_bytes() == b"a" * size + b"b" * size


def test_a_child_that_closes_its_copy_publishes_nothing(tmp_path):
    upload = stores.open_write(str(tmp_path / "a.bin"))
    upload.write(b"half")
    in_a_child(upload.close)
    assert list(tmp_path.glob("a.bin")) == []
    upload.write(b" and half")
    upload.close()
    assert (tmp_path / "a.bin").read_bytes() == b"half and half"


def test_a_shard_survives_a_fork_in_the_middle(tmp_path):
    holder = [wds.TarWriter(str(tmp_path / "a.tar"))]
    for number in range(300):
        holder[0].write({"__key__": f"{number:05d}", "bin": b"x" * 1000})
    in_a_child(lambda: drop(holder))
    for number in range(300, 600):
        holder[0].write({"__key__": f"{number:05d}", "bin": b"x" * 1000})
    holder.pop().close()
    assert len(list(wds.WebDataset(str(tmp_path / "a.tar")))) == 600


def test_an_upload_that_waits_in_a_temporary_file_survives_too(tmp_path, monkeypatch):
    from webdataset.stores import _upload

    monkeypatch.setattr(_upload, "_IN_MEMORY", 10)
    sent = []
    holder = [_upload.SpooledUpload(lambda stream, size: sent.append(stream.read()))]
    holder[0].write(b"a" * 50_000)
    in_a_child(lambda: drop(holder))
    holder[0].write(b"b" * 50_000)
    holder.pop().close()
    assert sent == [b"a" * 50_000 + b"b" * 50_000]
