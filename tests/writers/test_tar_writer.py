"""One archive: complete or absent, readable by everybody, the same bytes for the same samples."""

import io
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from webdataset.errors import CommandFailed, EncodingError, SpecError, StoreError, WebDatasetError
from webdataset.samples import read_shard
from webdataset.writers import Placed, TarWriter

keys = (
    st.lists(st.text(st.sampled_from("ab-_ é漢"), min_size=1, max_size=60), min_size=1, max_size=5)
    .map("/".join)
    .filter(lambda key: not key.startswith("__"))
)
fields = st.sampled_from(["jpg", "cls", "seg.png", "json", "a b", "x" * 90])
samples = st.dictionaries(fields, st.binary(max_size=1500), min_size=1, max_size=4)


def written(*samples, **options):
    stream = io.BytesIO()
    with TarWriter(stream, **options) as sink:
        for sample in samples:
            sink.write(sample)
    return stream.getvalue()


@given(st.dictionaries(keys, samples, max_size=5), st.sampled_from([None, "gnu", "pax"]))
@example({"a": {"x" * 300: b"1"}}, None)
def test_what_is_written_is_what_tarfile_reads(members, dataset, format):
    data = written(*({"__key__": key, **sample} for key, sample in dataset.items()), format=format)
    expected = [(f"{key}.{field}", sample[field]) for key, sample in dataset.items() for field in sorted(sample)]
    assert members(data) == expected


@given(
    st.dictionaries(keys, samples, max_size=5),
    st.sampled_from([None, "gnu", "pax"]),
    st.sampled_from(["", ".gz", ".zst"]),
)
def test_what_is_written_is_what_our_reader_reads(dataset, format, suffix):
    place = f"memory://writers/a.tar{suffix}"
    with TarWriter(place, format=format) as sink:
        for key, sample in dataset.items():
            sink.write({"__key__": key, **sample})
    expected = [{"__key__": key, "__url__": place, **sample} for key, sample in dataset.items()]
    assert list(read_shard({"url": place})) == expected


@pytest.mark.parametrize("program", [name for name in ("tar", "bsdtar") if shutil.which(name)])
@settings(max_examples=20)
@given(dataset=st.dictionaries(keys, samples, min_size=1, max_size=4), format=st.sampled_from([None, "gnu", "pax"]))
def test_other_tars_extract_exactly_what_was_written(program, dataset, format, tmp_path_factory):
    folder = tmp_path_factory.mktemp("extract")
    numbered = {f"{number}/{key}": sample for number, (key, sample) in enumerate(dataset.items())}
    data = written(*({"__key__": key, **sample} for key, sample in numbered.items()), format=format)
    command = [program, "-xf", "-", "-C", str(folder)]
    result = subprocess.run(
        command, input=data, capture_output=True, env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    )
    assert (result.returncode, result.stderr) == (0, b"")
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == {f"{key}.{field}": data for key, sample in numbered.items() for field, data in sample.items()}


@given(st.dictionaries(keys, samples, max_size=5), st.sampled_from([None, "gnu", "pax"]))
def test_on_sample_tells_where_every_payload_lies(dataset, format):
    seen = {}
    data = written(
        *({"__key__": key, **sample} for key, sample in dataset.items()), format=format, on_sample=seen.__setitem__
    )
    assert list(seen) == list(dataset)
    for key, placed in seen.items():
        assert all(isinstance(where, Placed) for where in placed)
        assert [where.name for where in placed] == [f"{key}.{field}" for field in sorted(dataset[key])]
        for field, offset, size, _ in placed:
            assert data[offset : offset + size] == dataset[key][field]


class TestPublishing:
    def test_nothing_is_visible_before_close(self, tmp_path, members):
        target = tmp_path / "a.tar"
        sink = TarWriter(target)
        sink.write({"__key__": "a", "txt": "hello"})
        assert not target.exists()
        sink.close()
        assert members(target) == [("a.txt", b"hello")]
        assert list(tmp_path.iterdir()) == [target], "no temporary file stays"

    def test_an_exception_leaves_nothing(self, tmp_path):
        with pytest.raises(KeyError), TarWriter(tmp_path / "a.tar") as sink:
            sink.write({"__key__": "a", "txt": "hello"})
            raise KeyError
        assert not list(tmp_path.iterdir())

    def test_an_exception_leaves_the_older_archive(self, tmp_path, members):
        with TarWriter(tmp_path / "a.tar") as sink:
            sink.write({"__key__": "old", "txt": "hello"})
        with pytest.raises(KeyError), TarWriter(tmp_path / "a.tar") as sink:
            sink.write({"__key__": "new", "txt": "hello"})
            raise KeyError
        assert members(tmp_path / "a.tar") == [("old.txt", b"hello")]

    @pytest.mark.parametrize("kind", [str, Path])
    def test_D50_paths_of_any_kind(self, tmp_path, kind, members):
        with TarWriter(kind(tmp_path / "a.tar")) as sink:
            sink.write({"__key__": "a", "txt": "hello"})
        assert members(tmp_path / "a.tar") == [("a.txt", b"hello")]

    def test_streams_stay_open(self):
        stream = io.BytesIO()
        with TarWriter(stream) as sink:
            sink.write({"__key__": "a", "txt": "hello"})
        assert not stream.closed

    def test_a_stream_gets_no_end_mark_when_the_block_raises(self):
        stream = io.BytesIO()
        with pytest.raises(KeyError), TarWriter(stream) as sink:
            for number in range(300):
                sink.write({"__key__": str(number), "bin": b"x" * 1000})
            raise KeyError
        assert stream.getvalue()[-1024:] != bytes(1024)

    def test_D33_close_may_be_called_again_and_write_not(self, tmp_path):
        sink = TarWriter(tmp_path / "a.tar")
        sink.close()
        sink.close()
        sink.abort()
        assert (tmp_path / "a.tar").read_bytes() == bytes(1024)
        with pytest.raises(OSError, match="the archive is closed") as caught:
            sink.write({"__key__": "a", "txt": "b"})
        assert isinstance(caught.value, StoreError)


class TestBytes:
    def test_returns_the_payload_size(self):
        with TarWriter(io.BytesIO()) as sink:
            assert sink.write({"__key__": "a", "txt": "hello", "bin": bytes(1000), "__url__": "no"}) == 1005

    def test_D38_a_tiny_sample_takes_1024_bytes(self):
        assert len(written({"__key__": "a", "cls": 7})) == 1024 + 1024

    def test_the_same_samples_give_the_same_bytes(self, monkeypatch):
        sample = {"__key__": "a", "txt": "hello", "json": {"b": 1, "a": 2}}
        before = written(sample)
        monkeypatch.setattr(time, "time", lambda: 1e9)
        assert written(dict(reversed(sample.items()))) == before

    def test_owner_mode_and_time_are_written(self):
        data = written({"__key__": "a", "txt": "b"}, user="me", group="us", mode=0o600, mtime=1234567890.75)
        info = tarfile.open(fileobj=io.BytesIO(data)).next()
        assert (info.uname, info.gname, info.mode, info.mtime) == ("me", "us", 0o600, 1234567890)
        assert (info.uid, info.gid) == (0, 0)

    def test_defaults(self):
        info = tarfile.open(fileobj=io.BytesIO(written({"__key__": "a", "txt": "b"}))).next()
        assert (info.uname, info.gname, info.mode, info.mtime) == ("bigdata", "bigdata", 0o444, 0)

    @pytest.mark.parametrize(
        "format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, "ustar", "gnu", "pax"]
    )
    def test_D28_format_is_honoured(self, format):
        magic = written({"__key__": "a", "txt": "b"}, format=format)[257:265]
        assert magic == (b"ustar  \0" if format in ("gnu", tarfile.GNU_FORMAT) else b"ustar\x0000")

    @pytest.mark.parametrize("value", [b"abc", bytearray(b"abc"), memoryview(b"abc"), memoryview(b"aXbXcX")[::2]])
    def test_anything_like_bytes(self, value, members):
        assert members(written({"__key__": "a", "bin": value})) == [("a.bin", b"abc")]

    @pytest.mark.parametrize("encoder", [True, False])
    def test_a_buffer_may_be_used_again_after_write(self, members, encoder):
        stream, buffer = io.BytesIO(), bytearray(b"one")
        with TarWriter(stream, encoder=encoder) as sink:
            sink.write({"__key__": "a", "bin": buffer})
            buffer[:] = b"two"
            sink.write({"__key__": "b", "bin": buffer})
        assert members(stream.getvalue()) == [("a.bin", b"one"), ("b.bin", b"two")]


class TestMeta:
    def test_meta_fields_are_dropped(self, members):
        sample = {"__key__": "a", "__url__": "u", "_x": object(), "txt": "b"}
        assert members(written(sample)) == [("a.txt", b"b")]

    @pytest.mark.parametrize("encoder", [True, False])
    def test_meta_fields_can_be_kept(self, members, encoder):
        sample = {"__key__": "a", "__url__": "u", "__note__": "ü", "txt": b"b"}
        kept = [("a.__note__", "ü".encode()), ("a.__url__", b"u"), ("a.txt", b"b")]
        assert members(written(sample, keep_meta=True, encoder=encoder)) == kept

    def test_meta_fields_that_are_kept_must_be_text(self):
        with pytest.raises(EncodingError, match=r"expected a str, got int.*field __n__"):
            written({"__key__": "a", "__n__": 3, "txt": b"b"}, keep_meta=True)

    def test_D34_what_was_kept_can_be_read_again(self, tmp_path):
        with TarWriter(tmp_path / "a.tar", keep_meta=True) as sink:
            sink.write({"__key__": "a", "__url__": "elsewhere", "__local_path__": "x", "__note__": "ü", "txt": "b"})
        (sample,) = read_shard({"url": str(tmp_path / "a.tar")})
        assert sample["__url__"] == str(tmp_path / "a.tar"), "the reader's own words win"
        assert (sample["__key__"], sample["__note__"], sample["txt"]) == ("a", "ü".encode(), b"b")


class TestRefusals:
    @pytest.mark.parametrize(
        ("sample", "says"),
        [
            ({"txt": "b"}, "__key__"),
            ({"__key__": 3, "txt": "b"}, "__key__"),
            ({"__key__": "img.v2", "txt": "b"}, "dot"),
            ({"__key__": "", "txt": "b"}, "empty"),
            ({"__key__": "a", "": "b"}, "empty"),
            ({"__key__": "a", "TXT": "b"}, "'txt'"),
            ({"__key__": "a", 3: "b"}, "for a field, got int 3"),
            ({"__key__": "a"}, "no fields"),
            ({"__key__": "a", "__url__": "b"}, "no fields"),
            ({"__key__": "a\0", "txt": "b"}, "name"),
            ({"__key__": "a", "unknown": object()}, "unknown"),
            ([1, 2], "__key__"),
        ],
    )
    def test_D07_D08_D49_what_would_not_come_back_is_refused_and_the_archive_goes_on(self, sample, says, members):
        stream = io.BytesIO()
        with TarWriter(stream) as sink:
            sink.write({"__key__": "0", "txt": "first"})
            with pytest.raises(WebDatasetError, match=says):
                sink.write(sample)
            sink.write({"__key__": "1", "txt": "second"})
        assert members(stream.getvalue()) == [("0.txt", b"first"), ("1.txt", b"second")]
        assert sink.count == 2

    def test_D15_classes_are_whole_numbers(self):
        for wrong in (None, [1], 1.5):
            with pytest.raises(EncodingError, match=r"field cls, sample a"):
                written({"__key__": "a", "cls": wrong})

    @pytest.mark.parametrize("between", [[], [{"__key__": "b", "txt": "0"}]])
    def test_the_same_key_twice_in_an_archive(self, between):
        with pytest.raises(EncodingError, match="with this key"):
            written({"__key__": "a", "txt": "1"}, *between, {"__key__": "a", "cls": 2})

    def test_errors_say_where(self, tmp_path):
        with (
            TarWriter(tmp_path / "x.tar") as sink,
            pytest.raises(EncodingError, match=r"field json, sample a, .*x\.tar"),
        ):
            sink.write({"__key__": "a", "json": object()})

    def test_strict_can_be_switched_off(self, members):
        samples = [{"__key__": "a.b", "TXT": "1"}, {"__key__": "a.b", "cls": 2}, {"__key__": "c"}]
        assert members(written(*samples, strict=False)) == [("a.b.TXT", b"1"), ("a.b.cls", b"2")]

    def test_without_encoder_values_are_bytes(self):
        with pytest.raises(EncodingError, match="expected bytes, got str"):
            written({"__key__": "a", "txt": "text"}, encoder=False)

    def test_an_encoder_returns_a_dict(self):
        with pytest.raises(EncodingError, match="returned a list"):
            written({"__key__": "a", "txt": "text"}, encoder=list)

    @pytest.mark.parametrize(
        "wrong", [{"mode": "rw"}, {"mtime": -5}, {"format": "zip"}, {"user": 3}, {"encoder": 3}, {"compress": "rar"}]
    )
    def test_wrong_arguments_fail_at_construction_and_leave_nothing(self, tmp_path, wrong):
        with pytest.raises(SpecError):
            TarWriter(tmp_path / "a.tar", **wrong)
        assert not list(tmp_path.iterdir())


class TestRealPrograms:
    """The ways in which well-known programs call the writer."""

    def test_text_ready_for_the_disk_into_a_file_object(self, tmp_path, members):
        with open(tmp_path / "a.tar", "wb") as stream:
            sink = TarWriter(stream)
            sink.write({"__key__": "000000001", "jpg": b"\xff\xd8", "txt": "caption", "json": '{"a": 1}'})
            sink.close()
        expected = [("000000001.jpg", b"\xff\xd8"), ("000000001.json", b'{"a": 1}'), ("000000001.txt", b"caption")]
        assert members(tmp_path / "a.tar") == expected

    def test_bytes_under_an_extension_of_ones_own(self, members):
        assert members(written({"__key__": "cut-1", "data": b"pickled"})) == [("cut-1.data", b"pickled")]

    def test_a_command_as_target(self, tmp_path, members):
        with TarWriter(f"pipe:cat > {tmp_path}/a.tar") as sink:
            assert sink.write({"__key__": "cut-1", "data": b"pickled"}) == 7
        assert members(tmp_path / "a.tar") == [("cut-1.data", b"pickled")]

    def test_a_command_that_fails_is_an_error(self, tmp_path):
        sink = TarWriter("pipe:cat > /dev/null; exit 3")
        sink.write({"__key__": "a", "data": b"x"})
        with pytest.raises(CommandFailed):
            sink.close()

    def test_a_buffer_by_keyword(self, members):
        buffer = io.BytesIO()
        sink = TarWriter(fileobj=buffer)
        sink.write({"__key__": "a", "cls": 3})
        sink.close()
        buffer.seek(0)
        assert members(buffer.read()) == [("a.cls", b"3")]
