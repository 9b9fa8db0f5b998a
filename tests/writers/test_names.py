"""Names that come back as they were written, and only those, pass."""

from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from webdataset.errors import EncodingError, SpecError
from webdataset.samples import is_meta, split_name
from webdataset.writers._check_names import check_field, check_key, require_key


def read_name(name):
    """What our reader makes of a name, field names in lower case as it does; None for what it skips."""
    key, field = split_name(name)
    return None if key is None or is_meta(name) else (key, field.lower())


def passes(check, name):
    try:
        check(name)
    except EncodingError:
        return False
    return True


names = st.text(st.sampled_from("aB._/ é"), max_size=8)


@given(names, names)
@example("__a", "b__")
@example("__a__/b", "c")
def test_a_name_passes_exactly_if_it_comes_back(key, field):
    accepted = passes(partial(check_key, fields=[field]), key) and passes(check_field, field)
    comes_back = field != "" and read_name(f"{key}.{field}") == (key, field)
    assert accepted == comes_back


@pytest.mark.parametrize("key", ["img.v2", "a/b.c", ".hidden", "a/.hidden"])
def test_D07_keys_with_dots_are_refused(key):
    with pytest.raises(EncodingError, match=r"dot in its last part.*strict=False"):
        check_key(key)


@pytest.mark.parametrize("key", ["", "a/", "/"])
def test_D08_empty_keys_are_refused(key):
    with pytest.raises(EncodingError, match="readers would skip it"):
        check_key(key)


@pytest.mark.parametrize(
    ("field", "says"), [("", "empty"), ("JPG", "write 'jpg'"), ("seg.Png", "write 'seg.png'"), ("a/b", "'/'")]
)
def test_D08_field_names_that_change_are_refused(field, says):
    with pytest.raises(EncodingError, match=says):
        check_field(field)


def test_keys_in_a_metadata_folder_are_refused():
    with pytest.raises(EncodingError, match="metadata"):
        check_key("__info__/a")
    check_key("__info__")
    check_key("a/__info__")


@pytest.mark.parametrize("field", [b"jpg", 3, None, ("a",)])
def test_field_names_are_text(field):
    with pytest.raises(SpecError, match="expected an extension"):
        check_field(field, strict=False)


@pytest.mark.parametrize(
    "sample", [{}, {"jpg": b""}, [], (1, 2), None, "a", {"__key__": 3}, {"__key__": b"a"}, {"__key__": None}]
)
def test_D49_a_sample_needs_a_key_of_text(sample):
    with pytest.raises(SpecError, match="__key__"):
        require_key(sample)
