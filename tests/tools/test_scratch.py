"""Temporary files: a disk or a folder that refuses them gives one clear error, and nothing half-written."""

import errno
import os
import signal
from pathlib import Path

import pytest

from tests.tools.datasets import write_numbers
from webdataset import tools
from webdataset.errors import StoreError
from webdataset.interop._staged_directory import StagedDirectory
from webdataset.stores import sweep_folder
from webdataset.tools import Options
from webdataset.tools._temporary_files import scratch_folder

VERBS = {
    "sort": lambda shard, output: tools.sort(shard, output, memory=1),
    "shuffle": lambda shard, output: tools.shuffle(shard, output, memory=1),
    "split": lambda shard, output: tools.split(f"pipe:cat {shard}", output, Options(shards=2)),
    "create": lambda shard, output: tools.create(f"pipe:cat {shard}", output, making=tools.Making(format="tar")),
    "proc": lambda shard, output: tools.proc(shard, output, command="true"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk(tmp_path, monkeypatch, verb):
    (shard,) = write_numbers(tmp_path, shards=1)

    def full(self, *_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    with monkeypatch.context() as patch:
        for name in ("open", "write_bytes"):  # what temporary files are written with
            patch.setattr(Path, name, full)
        with pytest.raises(StoreError, match=r"the disk is full – .*/\.wds\..* – free some space"):
            VERBS[verb](shard, f"{tmp_path}/out-%d.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["train-0.tar"]
    VERBS[verb](shard, f"{tmp_path}/out-%d.tar")


@pytest.mark.parametrize("verb", ["sort", "shuffle", "proc"])
def test_a_folder_for_temporary_files_that_is_not_there(tmp_path, verb):
    (shard,) = write_numbers(tmp_path, shards=1)
    options = {"proc": {"command": "true"}}.get(verb, {"memory": 1})
    with pytest.raises(StoreError, match="/nowhere"):
        getattr(tools, verb)(shard, str(tmp_path / "out.tar"), folder="/nowhere", **options)
    assert not (tmp_path / "out.tar").exists()


def test_what_killed_processes_left_is_removed_by_the_next_one(tmp_path):
    for number in range(2):
        child = os.fork()
        if not child:
            with scratch_folder(str(tmp_path)) as place:
                (place / "1.run").write_bytes(b"x")
                staged = StagedDirectory(str(tmp_path / "data"))
                (staged.work / "a.txt").write_bytes(b"x")
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        assert len(list(tmp_path.iterdir())) == 2, f"{number}: that of the process before is removed"
    with scratch_folder(str(tmp_path)) as place:
        staged = StagedDirectory(str(tmp_path / "data"))
        sweep_folder(str(tmp_path), {"wds", "data"})
        assert sorted(tmp_path.iterdir()) == sorted([place, staged.work])
        staged.publish()
    assert os.listdir(tmp_path) == ["data"]
