import multiprocessing

import pytest

from tests.stages.contract import FakeSource, Run, assert_contract, samples
from webdataset.errors import SpecError
from webdataset.flow import Pass
from webdataset.stages import log_keys
from webdataset.world import World


def test_lines(tmp_path):
    log = tmp_path / "log"
    assert list(log_keys(log)(samples(2))) == samples(2)
    assert log.read_text() == "0\t0\t0\t0000\n1\t0\t0\t0001\n"
    list(log_keys(str(log))([(1, 2)]))
    assert log.read_text().endswith("\n0\t0\t0\tNone\n")


def test_worker_and_rank_are_known(tmp_path):
    during = Pass(world=World(rank=1, ranks=2, worker=3, workers=4))
    list(Run([FakeSource(samples(1)), log_keys(tmp_path / "log")], during).items)
    assert (tmp_path / "log").read_text() == "0\t3\t1\t0000\n"


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_file_is_a_pass_through(nothing):
    assert list(log_keys(nothing)([1, 2])) == [1, 2]


def test_contract(tmp_path):
    assert_contract(samples(4), log_keys(str(tmp_path / "log")))


def write(path):
    list(log_keys(path)(samples(300)))


def test_processes_share_a_file(tmp_path):
    path = str(tmp_path / "log")
    processes = [multiprocessing.get_context("fork").Process(target=write, args=(path,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        process.close()
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 900 and all(len(line.split("\t")) == 4 for line in lines)


def test_bad_arguments_fail_at_once():
    with pytest.raises(SpecError):
        log_keys(3)
