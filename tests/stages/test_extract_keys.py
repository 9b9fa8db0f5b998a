import pytest

from tests.stages.contract import assert_contract, samples
from webdataset.errors import SpecError
from webdataset.stages import extract_keys

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


def test_contract():
    assert_contract(samples(3), extract_keys("n", "__key__"))
    assert repr(extract_keys("a;b", ignore_missing=True)) == "extract_keys('a;b', ignore_missing=True)"


def test_different_samples_are_matched_each_for_itself():
    out = list(extract_keys("*.a;*.b")([{"x.a": 1}, {"x.b": 2}, {"x.a": 3}]))
    assert out == [(1,), (2,), (3,)]


def test_bad_arguments_fail_at_once():
    with pytest.raises(SpecError):
        extract_keys(3)
