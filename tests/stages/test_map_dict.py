import pytest

from tests.stages.contract import assert_contract, samples
from webdataset.errors import SpecError
from webdataset.handlers import ignore_and_continue
from webdataset.stages import associate, map_dict, rename


def test_changes_the_sample_itself():
    sample = {"__key__": "a", "cls": b"3", "left.png": 1}
    (result,) = map_dict(cls=int, **{"left.png": str})([sample])
    assert result is sample and sample == {"__key__": "a", "cls": 3, "left.png": "1"}


def test_missing_field_is_a_key_error():
    with pytest.raises(KeyError, match="gif"):
        list(map_dict(gif=str)([{"jpg": 1}]))


def test_a_failure_leaves_the_sample_as_it_was():
    sample = {"a": "1", "b": "x"}
    assert list(map_dict(a=int, b=int, handler=ignore_and_continue)([sample])) == []
    assert sample == {"a": "1", "b": "x"}


def test_D49_no_fields_fail_at_once():
    with pytest.raises(SpecError, match="no fields"):
        map_dict()
    with pytest.raises(SpecError, match="not callable"):
        map_dict(jpg="decode")


def test_contract():
    assert_contract(samples(3), map_dict(n=str), rename(m="n"), associate({"0001": {"x": 1}}))
    assert repr(map_dict(n=str)) == "map_dict(n=str)"
    assert hash(map_dict(n=str)) == hash(map_dict(n=str))


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


def test_rename_of_nothing_there():
    with pytest.raises(ValueError, match=r"didn't find \['gif', 'bmp'\]"):
        list(rename(im="gif;bmp")([SAMPLE]))


def test_rename_with_bad_names_fails_at_once():
    with pytest.raises(SpecError):
        rename(im=3)
    assert repr(rename(im="jpg", keep=False)) == "rename(keep=False, im='jpg')"


def test_associate():
    assert list(associate({"k": {"z": 1}})([dict(SAMPLE)])) == [{**SAMPLE, "z": 1}]
    assert list(associate({})([dict(SAMPLE)])) == [SAMPLE]
    assert list(associate(lambda key: {"kk": key})([dict(SAMPLE)])) == [{**SAMPLE, "kk": "k"}]
    assert list(associate(lambda key: None)([dict(SAMPLE)])) == [SAMPLE]
    with pytest.raises(KeyError):
        list(associate({})([{"no": "key"}]))
    with pytest.raises(SpecError, match="neither a table nor a function"):
        associate(3)


def test_associate_keeps_its_table_out_of_the_repr():
    assert repr(associate({str(n): {} for n in range(1000)})) == "associate(dict)"
