"""Keys: who may connect, and where they are needed."""

import pytest

import webdataset as wds
from tests.serve.pipelines import batches, stream
from webdataset.serve import Keys, Worker, write_keys

QUICK = {"patience": 0.4, "timeout": 1.5}  # where no worker answers
PATIENT = {"patience": 10, "timeout": 60}  # where all do, however slow the machine is


def test_keys(few, tmp_path):
    worker_key, trainer_key = write_keys(tmp_path / "keys")
    _, other_key = write_keys(tmp_path / "others")
    assert worker_key.stat().st_mode & 0o077 == 0
    assert "secret" not in repr(Keys.load(trainer_key))
    with Worker(batches(few), keys=worker_key) as worker:
        assert stream(wds.connect(worker.address, keys=trainer_key, **PATIENT)) == stream(batches(few))
        for wrong in (other_key, None):
            with pytest.raises(wds.StoreTimeout):
                wds.connect(worker.address, keys=wrong, **QUICK)
    with Worker(batches(few)) as worker, pytest.raises(wds.StoreTimeout):
        wds.connect(worker.address, keys=trainer_key, **QUICK)
    with pytest.raises(wds.SpecError, match="is not a file of keys"):
        wds.connect("tcp://127.0.0.1:1", keys=tmp_path / "absent")
    with pytest.raises(wds.SpecError, match="exists already"):
        write_keys(tmp_path / "keys")


def test_addresses_that_others_reach_need_keys(few):
    with pytest.raises(wds.SpecError, match="not a loopback address, and there are no keys"):
        Worker(batches(few), "tcp://0.0.0.0:*")
    with pytest.raises(wds.SpecError, match="not a loopback address, and there are no keys"):
        wds.connect("tcp://10.0.0.1:7880")
    Worker(batches(few), "tcp://0.0.0.0:*", insecure=True).stop()
