import os
import subprocess
import sys
from pathlib import Path

import pytest

from webdataset.errors import SpecError
from webdataset.flow import Pass
from webdataset.shards import DirectoryShardList, check_pid_is_running, get_pid_from_filename


@pytest.fixture
def folder(tmp_path):
    for name in ("b.tar", "a.tgz", "c.tar.gz", "notes.txt"):
        (tmp_path / name).write_text(name)
    return tmp_path


def names(items):
    return [Path(item["url"]).name for item in items]


def test_D20_plain_listing_by_default(folder):
    before = sorted(os.listdir(folder))
    source = DirectoryShardList(f"{folder}/")
    assert names(source) == ["a.tgz", "b.tar", "c.tar.gz"] == names(source)
    assert sorted(os.listdir(folder)) == before
    assert names(DirectoryShardList(folder, pattern="*.{tar,txt}")) == ["b.tar", "notes.txt"]


def test_nothing_there_is_an_error_and_no_endless_wait(tmp_path):
    with pytest.raises(SpecError, match="no shard"):
        list(DirectoryShardList(f"{tmp_path}/"))


def test_listing_resumes(folder):
    source = DirectoryShardList(folder)
    at = source.start(Pass())
    next(source.run(iter(()), at))
    again = source.start(Pass())
    again.load(at.save(), None)
    assert names(source.run(iter(()), again)) == ["b.tar", "c.tar.gz"]


@pytest.mark.parametrize(("mode", "left"), [
    ("unlink", ["notes.txt"]),
    ("keep", ["a.tgz._done_", "b.tar._done_", "c.tar.gz._done_", "notes.txt"]),
])  # fmt: skip
def test_claiming_on_request(folder, mode, left):
    seen = []
    for item in DirectoryShardList(folder, mode=mode, poll=None):
        assert get_pid_from_filename(item["url"]) == os.getpid() and Path(item["url"]).is_file()
        seen += names([item])
    assert len(seen) == 3 and sorted(os.listdir(folder)) == left


def test_resampling_gives_files_back(folder):
    before = sorted(os.listdir(folder))
    stream = iter(DirectoryShardList(folder, mode="resample", poll=None))
    seen = {Path(next(stream)["url"]).name.split("._")[0] for _ in range(50)}
    stream.close()
    assert seen == {"a.tgz", "b.tar", "c.tar.gz"} and sorted(os.listdir(folder)) == before


def test_oldest_first_and_fate(folder):
    for age, name in enumerate(("c.tar.gz", "a.tgz", "b.tar")):
        os.utime(folder / name, (1000 + age, 1000 + age))
    fates = []
    source = DirectoryShardList(
        folder, mode="keep", select="oldest", poll=None, fate=lambda p: (fates.append(p), os.unlink(p))
    )
    assert [name.split("._")[0] for name in names(source)] == ["c.tar.gz", "a.tgz", "b.tar"]
    assert len(fates) == 3 and os.listdir(folder) == ["notes.txt"]


def test_an_empty_directory_is_waited_for_until_the_timeout(tmp_path):
    assert list(DirectoryShardList(tmp_path, mode="unlink", poll=0.01, timeout=0.02)) == []


def test_claims_of_the_dead_are_given_back(folder):
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    pid = int(dead.stdout)
    assert not check_pid_is_running(pid) and check_pid_is_running(os.getpid())
    (folder / "b.tar").rename(folder / f"b.tar._{pid}_")
    (folder / "a.tgz").rename(folder / f"a.tgz._{os.getpid()}_")
    assert sorted(name.split("._")[0] for name in names(DirectoryShardList(folder, mode="unlink", poll=None))) == [
        "b.tar",
        "c.tar.gz",
    ]


@pytest.mark.parametrize(
    "wrong", [{"mode": "eat"}, {"mode": "keep", "select": "best"}, {"mode": "keep", "path": "/no/such/place"}]
)
def test_wrong_arguments_fail_at_construction(folder, wrong):
    with pytest.raises(SpecError):
        DirectoryShardList(**{"path": folder, **wrong})
