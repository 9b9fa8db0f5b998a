import pytest

from tests.stages.contract import assert_contract, samples
from webdataset.errors import SpecError
from webdataset.stages import rename_keys

SAMPLE = {"__key__": "k", "__url__": "u", "A.jpg": 1, "jpg": 2, "png": 3, "x/cls": 4}


def outcome(stage):
    try:
        (result,) = stage([SAMPLE])
    except ValueError as error:
        return str(error).split()[0]
    return result


@pytest.mark.parametrize(
    ("rules", "options", "expected"),
    [
        ([], dict(im="jpg"), {"im": 2}),
        ([("im", "jpg;png")], {}, "Not"),
        (
            [("im", "*.jpg")],
            dict(keep_unselected=True),
            {"__key__": "k", "__url__": "u", "im": 1, "jpg": 2, "png": 3, "x/cls": 4},
        ),
        ([("im", "*g")], {}, "Duplicate"),
        ([("im", "*g")], dict(duplicate_is_error=False), {"im": 1}),
        ([("im", "gif")], {}, "Not"),
        ([("im", "gif")], dict(must_match=False), {}),
        ([], dict(c="cls"), {"c": 4}),
        ([], dict(c="x/cls"), "Not"),
        ([("a", "jpg"), ("b", "jpg")], {}, {"b": 2}),
        (
            [("k", "__key__")],
            dict(keep_unselected=True),
            {"k": "k", "__url__": "u", "A.jpg": 1, "jpg": 2, "png": 3, "x/cls": 4},
        ),
        ([("a", "a.jpg"), ("b", "*.jpg"), ("jpg", "png")], dict(keep_unselected=True), "Duplicate"),
    ],
)
def test_rename_keys_as_the_public_one(rules, options, expected):
    result = outcome(rename_keys(*rules, **options))
    assert result == expected
    assert not isinstance(result, dict) or list(result) == list(expected)


def test_contract():
    assert_contract(samples(3), rename_keys(("m", "n"), keep_unselected=True))
    assert repr(rename_keys(("m", "n"), k="o")) == "rename_keys(('m', 'n'), ('k', 'o'))"


def test_bad_arguments_fail_at_once():
    with pytest.raises(SpecError):
        rename_keys("jpg")
