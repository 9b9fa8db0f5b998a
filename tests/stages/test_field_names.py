"""Stages that name a field which is not there: one error, with stage, sample and remedy."""

import pytest

from webdataset.errors import FieldNotFound
from webdataset.stages import bucketed, map_dict, rename, to_tuple

STAGES = [
    map_dict(npy=str, npyy=str),
    rename(array="npyy"),
    to_tuple("npy", "npyy"),
    bucketed(2, boundaries=(3,), length="npyy"),
]


@pytest.mark.parametrize("stage", STAGES, ids=str)
@pytest.mark.parametrize("builtin", [KeyError, ValueError])
def test_a_missing_field(stage, builtin):
    with pytest.raises(
        builtin, match=r"^didn't find \['npyy'\] in \['__key__', 'npy'\] – stage .*, sample a – name"
    ) as caught:
        list(stage([{"__key__": "a", "npy": [1]}]))
    assert type(caught.value) is FieldNotFound
    assert caught.value.where.stage == repr(stage)
