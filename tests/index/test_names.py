from hypothesis import given, strategies as st

from webdataset import index, samples


def test_the_table():
    table = {
        "a.jpg": ("a", "jpg"), "a.seg.jpg": ("a", "seg.jpg"), "dir.x/y.z/a.b.c": ("dir.x/y.z/a", "b.c"),
        "./a.jpg": ("./a", "jpg"), "a.": ("a", ""), "a..b": ("a", ".b"), "a": None, "dir/a": None, ".hidden.jpg": None,
        "dir/.hidden.jpg": None, "dir/._a.jpg": None, "__m__/x.jpg": None, "__m__": None, "__m__.json": ("__m__", "json"),
        "dir/__x__.jpg": ("dir/__x__", "jpg"),
    }  # fmt: skip
    assert {name: index.sample_and_field(name) for name in table} == table


@given(st.text(alphabet="ab./_ ", max_size=12))
def test_the_same_rule_as_the_reader(name):
    """Sample numbers of an index must be those of the stream."""
    from webdataset.names import is_meta

    read = None if is_meta(name) else samples.split_name(name)
    assert index.sample_and_field(name) == (None if read in (None, (None, None)) else read)
