"""Every hostile shard of attacks/ leads to its verdict."""

import importlib.util
import tracemalloc
from pathlib import Path

import pytest

from webdataset import errors
from webdataset.samples import read_shard

_path = Path(__file__).parents[2] / "attacks" / "generate.py"
_spec = importlib.util.spec_from_file_location("hostile_shards", _path)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
ATTACKS = _module.attacks()


def verdict(path, **options):
    keys = []
    try:
        for sample in read_shard(path, **options):
            keys.append(sample["__key__"])
            assert sample["__url__"] == path
    except errors.WebDatasetError as error:
        return type(error).__name__, tuple(keys), error
    return None, tuple(keys), None


@pytest.mark.parametrize("name", ATTACKS)
def test_attack(shard, name):
    attack = ATTACKS[name]
    path = shard(attack.shard)
    tracemalloc.start()
    kind, keys, error = verdict(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (kind, keys) == (attack.error, attack.keys)
    assert peak < 80 << 20
    if error is not None:
        assert error.where.shard == path
        assert error.hint
        assert path in str(error)
    asked = []
    kind, keys, _ = verdict(path, handler=lambda error: asked.append(error) or True)
    assert kind is None
    assert len(asked) == (attack.error is not None)
    assert set(keys) <= {*attack.keys, "1", "2"}
