import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from webdataset.errors import FormatError, SpecError
from webdataset.shards import envsubst, expand, expand_source, expand_urls, is_shard_name, load_yaml, parse_spec

from webdataset.tools import read_mix_sources


def test_braces_and_parts_in_order():
    assert expand_urls("a-{00..02}.tar::b-{x,y}.tar::c.tar") == [
        "a-00.tar", "a-01.tar", "a-02.tar", "b-x.tar", "b-y.tar", "c.tar",
    ]  # fmt: skip


def test_environment_is_substituted_again_and_again(monkeypatch):
    monkeypatch.setenv("WDS_ROOT", "s3://${BUCKET}")
    monkeypatch.setenv("WDS_BUCKET", "b")
    assert expand_urls("${ROOT}/{0..1}.tar") == ["s3://b/0.tar", "s3://b/1.tar"]


def test_a_missing_variable_is_named(monkeypatch):
    monkeypatch.delenv("WDS_NOPE", raising=False)
    with pytest.raises(SpecError, match="WDS_NOPE"):
        expand_urls("${NOPE}/a.tar")


def test_a_variable_that_stands_for_itself_is_refused(monkeypatch):
    monkeypatch.setenv("WDS_A", "${A}x")
    with pytest.raises(SpecError, match="circular"):
        envsubst("${A}")


def test_D50_paths_lists_and_braces_in_lists_are_accepted():
    assert expand(Path("a.tar")) == ["a.tar"]
    assert expand(["a-{0..1}.tar", Path("b.tar")]) == ["a-0.tar", "a-1.tar", "b.tar"]
    assert expand_urls(iter(["x", "y"])) == ["x", "y"]


def test_D50_an_empty_list_is_an_explicit_error():
    with pytest.raises(SpecError, match="empty"):
        expand([])


@pytest.mark.parametrize("wrong", [None, 3, 2.5, b"a.tar", [1, 2], [None], object()])
def test_D50_unknown_types_are_explicit_errors(wrong):
    with pytest.raises(SpecError):
        expand(wrong)


def test_unbalanced_braces_name_the_spec():
    with pytest.raises(SpecError, match="a{0..9"):
        expand_urls("a{0..9.tar")


def test_commands_stay_as_they_are():
    command = "pipe:awk '{print $1}' < 'C:\\x' | tar c *.jpg ?"
    assert expand(command) == [command]
    assert expand([command]) == [command]


def test_queries_and_windows_paths_are_no_patterns():
    for url in ("https://h/a.tar?sig=*x", "https://h/*.tar?sig=x", "http://h/[1].tar", "C:\\data\\a.tar"):
        assert expand(url) == [url]


def test_limit_of_expand_source():
    assert expand_source(iter("abcdef"), max_urls=3) == ["a", "b", "c"]
    assert expand_source("{0..9}", max_urls=2) == ["0", "1"]
    endless = iter(lambda: "a.tar", None)
    assert len(expand_source(endless, max_urls=5)) == 5


def test_globs_and_directories_are_listed(tmp_path):
    for name in ("b.tar", "a.tar", "notes.txt", "c.tar.gz"):
        (tmp_path / name).touch()
    names = lambda urls: [os.path.basename(url) for url in urls]
    assert names(expand(f"{tmp_path}/*.tar")) == ["a.tar", "b.tar"]
    assert names(expand(f"{tmp_path}/")) == ["a.tar", "b.tar", "c.tar.gz"]
    assert names(expand(tmp_path)) == ["a.tar", "b.tar", "c.tar.gz"]
    assert names(expand([f"{tmp_path}/{{a,b}}*.tar"])) == ["a.tar", "b.tar"]


def test_a_file_whose_name_has_brackets_is_itself(tmp_path):
    (tmp_path / "a[1].tar").touch()
    assert expand(f"{tmp_path}/a[1].tar") == [f"{tmp_path}/a[1].tar"]


@pytest.mark.parametrize("pattern", ["*.tar", ""])
def test_nothing_found_is_an_error(tmp_path, pattern):
    with pytest.raises(SpecError, match="no shard matches"):
        expand(f"{tmp_path}/{pattern}")


def test_shard_names():
    assert is_shard_name("A.TAR") and is_shard_name("s3://x/a.tgz") and not is_shard_name("a.idx")


@given(st.text(alphabet="abc/.-_ %#", min_size=1, max_size=20))
def test_plain_text_is_its_own_expansion(text):
    assert expand_urls(text) == [text] and expand_urls([text]) == [text]


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 6))
def test_number_ranges_keep_their_width(low, more, width):
    high = low + more
    spec = f"s-{{{low:0{width}d}..{high:0{width}d}}}.tar"
    expected_width = width if low or width > 1 else 1
    assert expand_urls(spec) == [f"s-{n:0{expected_width}d}.tar" for n in range(low, high + 1)]


@pytest.mark.parametrize("spec", ["", "a.tar::", ["a.tar", ""]])
def test_an_empty_address_is_refused(spec):
    with pytest.raises(SpecError, match="is empty"):
        expand(spec)


LAUGHS = b"".join(b"a%d: &a%d [%s]\n" % (n + 1, n + 1, b", ".join([b"*a%d" % n] * 9)) for n in range(30))
MERGES = b"".join(b"a%d: &a%d {<<: [*a%d, *a%d]}\n" % (n + 1, n + 1, n, n) for n in range(60))


@pytest.mark.parametrize("text", [
    b"a0: &a0 [x]\n" + LAUGHS, b"a0: &a0 {x: 1}\n" + MERGES, b"datasets: &a [*a]", b"[" * 1000, b"\xff", b"a: [", b"a: b: c", b"1",
    b"prefix: 1", b"datasets: [1]", b"datasets: [{shards: 1}]", b"datasets: [{shards: [a.tar], choose: x}]", b"datasets: [{shards: [[a]]}]",
], ids=range(13))  # fmt: skip
def test_a_yaml_file_of_a_stranger(text, tmp_path):
    """Aliases of aliases would be written out into the message of an error, and merged ones into a mapping."""
    spec = tmp_path / "spec.yaml"
    spec.write_bytes(text)
    with pytest.raises(SpecError):
        list(parse_spec(spec))
    with pytest.raises(FormatError):
        read_mix_sources(str(spec))


def test_a_yaml_file_with_aliases_is_read():
    text = b"base: &base {choose: 2}\ndatasets:\n- {<<: *base, shards: [a.tar]}\n- {<<: *base, shards: [b.tar]}\n"
    assert load_yaml(text, "")["datasets"] == [{"choose": 2, "shards": ["a.tar"]}, {"choose": 2, "shards": ["b.tar"]}]
