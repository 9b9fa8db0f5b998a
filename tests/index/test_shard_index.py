import numpy as np
import pytest

from webdataset.errors import FormatError
from webdataset.index import Keys, ShardIndex, build


def columns(**changes):
    good = {
        "firsts": np.array([0, 2, 3]), "offsets": np.array([512, 2048, 3072]), "sizes": np.array([600, 1, 10]),
        "field_numbers": np.array([0, 1, 0], dtype=np.int32), "fields": ("jpg", "cls"), "keys": Keys(["a", "b"]),
    }  # fmt: skip
    return {**good, **changes}


def test_a_good_index():
    index = ShardIndex(**columns())
    assert len(index) == 2 and index.end == 3584 and index.start(0) == 0 and index.start(1) == 2560
    assert index.find("b") == 1
    with pytest.raises(KeyError):
        index.find("c")
    assert index == build([("a.jpg", 512, 600), ("a.cls", 2048, 1), ("b.jpg", 3072, 10)])
    assert index != build([("a.jpg", 512, 600)]) and index != 3


@pytest.mark.parametrize("wrong", [
    {"firsts": np.array([0, 0, 3])}, {"firsts": np.array([1, 2, 3])}, {"firsts": np.array([0, 2, 4])}, {"firsts": np.array([], int)},
    {"sizes": np.array([600, -1, 10])}, {"sizes": np.array([600, 1])}, {"field_numbers": np.array([0])},
    {"offsets": np.array([-512, 2048, 3072])}, {"offsets": np.array([512, 2049, 3072])}, {"offsets": np.array([512, 1024, 3072])},
    {"offsets": np.array([512, 3072, 2048])}, {"offsets": np.array([0, 2048, 3072])}, {"keys": Keys(["a"])},
    {"sizes": np.array([600, 1, 2**63 - 1])},
])  # fmt: skip
def test_impossible_archives_are_refused(wrong):
    with pytest.raises(FormatError, match="impossible"):
        ShardIndex(**columns(**wrong))
