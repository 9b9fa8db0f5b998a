import pytest

from tests.stages.contract import assert_contract, samples
from webdataset.errors import SpecError
from webdataset.stages import rename

SAMPLE = {"__key__": "k", "__url__": "u", "jpg": 2, "png": 3, "cls": 4}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (dict(im="jpg;png"), {"__key__": "k", "__url__": "u", "cls": 4, "im": 2}),
        (dict(im="jpg;png", keep=False), {"im": 2}),
        (dict(jpg="png", png="jpg"), {"__key__": "k", "__url__": "u", "cls": 4, "jpg": 3, "png": 2}),
        (dict(), SAMPLE),
    ],
)
def test_rename(arguments, expected):
    (result,) = rename(**arguments)([SAMPLE])
    assert result == expected and list(result) == list(expected) and result is not SAMPLE


def test_rename_with_bad_names_fails_at_once():
    with pytest.raises(SpecError):
        rename(im=3)
    assert repr(rename(im="jpg", keep=False)) == "rename(keep=False, im='jpg')"


def test_contract():
    assert assert_contract(samples(1), rename(m="n"))[0]["m"] == 0
