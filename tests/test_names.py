import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdataset.samples import is_meta, split_name


@pytest.mark.parametrize(
    ("name", "key", "field"),
    [
        ("a.jpg", "a", "jpg"),
        ("a.seg.jpg", "a", "seg.jpg"),
        ("dir.x/y.z/a.b.c", "dir.x/y.z/a", "b.c"),
        ("./a.jpg", "./a", "jpg"),
        ("/abs/a.jpg", "/abs/a", "jpg"),
        ("../a.jpg", "../a", "jpg"),
        ("a.JPG", "a", "JPG"),
        ("a..b", "a", ".b"),
        ("a.", "a", ""),
        ("a", None, None),
        ("dir/a", None, None),
        (".hidden", None, None),
        (".hidden.jpg", None, None),
        ("a b.c d.txt", "a b", "c d.txt"),
        ("", None, None),
        ("dir.x/a", None, None),
    ],
)
def test_the_table_of_names(name, key, field):
    assert split_name(name) == (key, field)


@pytest.mark.parametrize("name", ["dir/.hidden.jpg", "dir/._a.jpg", "a/b/.x", "./.a.jpg"])
def test_D10_hidden_files_are_skipped_in_every_directory(name):
    assert split_name(name) == (None, None)


@given(st.text())
def test_key_and_field_make_up_the_name(name):
    key, field = split_name(name)
    assert key is None or f"{key}.{field}" == name


@pytest.mark.parametrize("name", ["__foo__", "__foo__/x.jpg", "__meta__/a/b.jpg", "____"])
def test_meta_names(name):
    assert is_meta(name)


@pytest.mark.parametrize("name", ["__m__.json", "dir/__x__.jpg", "__key", "a__b__", "_x_/a.jpg", "__a/b__"])
def test_names_that_only_look_like_it(name):
    assert not is_meta(name)
