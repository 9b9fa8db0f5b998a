import pickle

import pytest

from tests.stages.contract import samples
from webdataset.errors import StoreError
from webdataset.stages import LMDBCached


def test_a_full_lmdb_says_so(tmp_path):
    with pytest.raises(StoreError, match="larger map_size"):
        list(LMDBCached(tmp_path / "small", map_size=1e5, chunksize=1)([bytes(50_000)] * 4))


def test_a_store_of_the_public_library_is_recorded_anew(tmp_path):
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(tmp_path / "old"), map_size=10**8) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"0001", pickle.dumps({"__key__": "0001"}))
        transaction.put(b"_", b"complete")
    stage = LMDBCached(tmp_path / "old", 1e8)
    assert list(stage(samples(3))) == samples(3) and list(stage(())) == samples(3)


def test_without_lmdb_the_extra_is_named(tmp_path, monkeypatch):
    import sys

    from webdataset.errors import MissingDependency

    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(MissingDependency, match=r"webdataset\[lmdb\]"):
        list(LMDBCached(tmp_path / "x")(samples(1)))
