import pickle
import sqlite3

import pytest

from tests.stages.contract import FakeSource, Run, assert_resumes_everywhere, samples
from webdataset.errors import FormatError, SpecError
from webdataset.flow import Pass
from webdataset.stages import DBCache, shuffle
from webdataset.world import World


def test_a_file_that_is_no_database_says_so(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"these are not the samples you are looking for" * 30)
    with pytest.raises(FormatError, match="not a sample cache"):
        list(DBCache(path)(samples(2)))
    assert path.read_bytes().startswith(b"these")


def test_db_cache_keeps_the_first_samples_only(tmp_path):
    stage = DBCache(tmp_path / "db", 3)
    numbers = iter(range(10))
    assert list(stage(numbers)) == [0, 1, 2] and next(numbers) == 3
    assert list(stage(())) == [0, 1, 2]


def test_db_cache_of_another_size(tmp_path):
    assert list(DBCache(tmp_path / "db", 3)(range(10))) == [0, 1, 2]
    assert list(DBCache(tmp_path / "db", 2)(())) == [0, 1]
    assert list(DBCache(tmp_path / "db", 5)(range(10))) == [0, 1, 2, 3, 4]
    assert list(DBCache(tmp_path / "db")(range(10))) == list(range(10))
    assert list(DBCache(tmp_path / "db", 50)(())) == list(range(10))


def test_db_cache_divides_its_size_among_workers(tmp_path):
    stage = DBCache(tmp_path / "db", 7)
    counts = [
        len(list(Run([FakeSource(range(100)), stage], Pass(world=World(worker=n, workers=3))).items)) for n in range(3)
    ]
    assert sum(counts) == 7 and max(counts) - min(counts) <= 1


def test_db_cache_can_be_shuffled(tmp_path):
    stage = DBCache(tmp_path / "db", 50, shuffle=True)
    list(stage(range(100)))
    orders = [list(Run([FakeSource(()), stage], Pass(epoch=epoch)).items) for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1] and sorted(orders[1]) == list(range(50))
    assert_resumes_everywhere([FakeSource(()), stage, shuffle(4)])


def test_db_cache_as_in_version_0_1(tmp_path):
    dataset = DBCache(str(tmp_path / "db"), 5, samples(8), True, False)
    assert list(dataset) == samples(5)
    assert sorted(s["n"] for s in dataset) == list(range(5))
    with pytest.raises(SpecError, match="no source"):
        iter(DBCache("db"))


def test_db_cache_rows_can_be_read_by_anyone(tmp_path):
    list(DBCache(tmp_path / "db")([{"a": 1}]))
    with sqlite3.connect(tmp_path / "db") as database:
        (blob,) = database.execute("SELECT sample FROM recorded").fetchone()
    database.close()
    assert pickle.loads(blob) == {"a": 1}
