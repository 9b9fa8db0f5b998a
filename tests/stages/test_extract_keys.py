import pytest

from tests.stages.contract import assert_contract, samples
from webdataset.errors import SpecError
from webdataset.stages import extract_keys, rename_keys

SAMPLE = {"__key__": "k", "__url__": "u", "A.jpg": 1, "jpg": 2, "png": 3, "x/cls": 4}


def outcome(stage):
    try:
        (result,) = stage([SAMPLE])
    except ValueError as error:
        return str(error).split()[0]
    return result


@pytest.mark.parametrize(
    ("patterns", "options", "expected"),
    [
        (["jpg", "png;gif"], {}, (2, 3)),
        (["*g"], {}, "Multiple"),
        (["*g"], dict(duplicate_is_error=False), (1,)),
        (["gif"], {}, "Cannot"),
        (["gif", "jpg"], dict(ignore_missing=True), (2,)),
        (["*.jpg"], dict(duplicate_is_error=False), (1,)),
        ([".jpg"], {}, (2,)),
        ([["jpg", "png"]], {}, "Multiple"),
        (["png;jpg"], {}, "Multiple"),
        (["jpg *.cls"], {}, "Cannot"),
    ],
)
def test_extract_keys_as_the_public_one(patterns, options, expected):
    assert outcome(extract_keys(*patterns, **options)) == expected


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
    assert_contract(samples(3), extract_keys("n", "__key__"))
    assert_contract(samples(3), rename_keys(("m", "n"), keep_unselected=True))
    assert repr(extract_keys("a;b", ignore_missing=True)) == "extract_keys('a;b', ignore_missing=True)"
    assert repr(rename_keys(("m", "n"), k="o")) == "rename_keys(('m', 'n'), ('k', 'o'))"


def test_different_samples_are_matched_each_for_itself():
    out = list(extract_keys("*.a;*.b")([{"x.a": 1}, {"x.b": 2}, {"x.a": 3}]))
    assert out == [(1,), (2,), (3,)]


def test_bad_arguments_fail_at_once():
    with pytest.raises(SpecError):
        extract_keys(3)
    with pytest.raises(SpecError):
        rename_keys("jpg")
