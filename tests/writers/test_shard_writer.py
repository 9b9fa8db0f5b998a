"""A series of archives: every sample in exactly one complete shard, or an error."""

import io
import logging
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdataset.errors import EncodingError, SpecError, StoreError
from webdataset.samples import read_shard
from webdataset.writers import ShardWriter, TarWriter


def sample(number, size=10):
    return {"__key__": f"{number:04d}", "bin": bytes([number % 256]) * size}


def shards(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def keys_of(members):
    return lambda path: [name.partition(".")[0] for name, _ in members(path)]


class TestRollover:
    def test_by_count(self, tmp_path, keys_of):
        with ShardWriter(f"{tmp_path}/a-%03d.tar", maxcount=2) as sink:
            for number in range(5):
                sink.write(sample(number))
        assert [keys_of(path) for path in sorted(tmp_path.iterdir())] == [["0000", "0001"], ["0002", "0003"], ["0004"]]

    def test_by_payload_size(self, tmp_path, keys_of):
        with ShardWriter(f"{tmp_path}/a-%03d.tar", maxsize=25) as sink:
            for number in range(4):
                sink.write(sample(number))
        # A shard is full once it holds at least maxsize bytes of payload: 30 here.
        assert [len(keys_of(path)) for path in sorted(tmp_path.iterdir())] == [3, 1]

    @given(
        sizes=st.lists(st.integers(0, 50), max_size=30),
        maxcount=st.integers(1, 10),
        maxsize=st.integers(1, 200),
        start=st.integers(0, 3),
    )
    def test_every_sample_in_one_shard_in_order(self, members, sizes, maxcount, maxsize, start):
        streams = {}

        class Kept(io.BytesIO):
            def close(self):
                streams[self.name] = self.getvalue()
                super().close()

        def opener(name):
            stream = Kept()
            stream.name = name
            return stream

        with ShardWriter("a-%d", maxcount, maxsize, start_shard=start, opener=opener) as sink:
            for number, size in enumerate(sizes):
                sink.write(sample(number, size))
        contents = [members(data) for data in streams.values()]
        assert list(streams) == [f"a-{start + number}" for number in range(len(streams))]
        assert [(f"{n:04d}.bin", bytes([n % 256]) * size) for n, size in enumerate(sizes)] == sum(contents, [])
        for shard in contents:
            assert 1 <= len(shard) <= maxcount
            assert sum(len(data) for _, data in shard[:-1]) < maxsize

    def test_the_shard_at_work_can_be_ended_by_hand(self, tmp_path, keys_of):
        with ShardWriter(f"{tmp_path}/a-%d.tar") as sink:
            sink.write(sample(0))
            sink.next_stream()
            sink.write(sample(1))
            sink.finish()
            sink.finish()
            assert shards(tmp_path) == ["a-0.tar", "a-1.tar"]
            sink.write(sample(2))
        assert [keys_of(path) for path in sorted(tmp_path.iterdir())] == [["0000"], ["0001"], ["0002"]]


class TestAttributes:
    def test_before_the_first_sample(self, tmp_path):
        with ShardWriter(f"{tmp_path}/a-%d.tar", start_shard=7) as sink:
            assert (sink.shard, sink.count, sink.size, sink.total) == (8, 0, 0, 0)
            assert sink.fname == f"{tmp_path}/a-7.tar"
            assert isinstance(sink.tarstream, TarWriter)
            sink.tarstream.write(sample(0))
        assert shards(tmp_path) == ["a-7.tar"]

    def test_while_writing(self, tmp_path):
        seen = []
        with ShardWriter(f"{tmp_path}/a-%d.tar", maxcount=2) as sink:
            for number in range(3):
                sink.write(sample(number))
                seen.append((sink.shard, os.path.basename(sink.fname), sink.count, sink.size, sink.total))
        assert seen == [(1, "a-0.tar", 1, 10, 1), (1, "a-0.tar", 2, 20, 2), (2, "a-1.tar", 1, 10, 3)]

    def test_after_closing(self, tmp_path):
        with ShardWriter(f"{tmp_path}/a-%d.tar", maxcount=2) as sink:
            for number in range(3):
                sink.write(sample(number))
        assert (sink.shard, sink.total, sink.tarstream) == (2, 3, None)
        assert "closed" in repr(sink)


class TestPublishing:
    def test_no_samples_no_shard(self, tmp_path):
        with ShardWriter(f"{tmp_path}/a-%d.tar") as sink:
            sink.next_stream()
            assert sink.tarstream is not None
        assert not shards(tmp_path)

    def test_D33_close_may_be_called_again_and_write_not(self, tmp_path):
        sink = ShardWriter(f"{tmp_path}/a-%d.tar")
        sink.write(sample(0))
        sink.close()
        sink.close()
        sink.finish()
        sink.abort()
        assert shards(tmp_path) == ["a-0.tar"]
        for use in (lambda: sink.write(sample(1)), sink.next_stream):
            with pytest.raises(StoreError, match="closed"):
                use()

    def test_D33_an_exception_leaves_only_complete_shards(self, tmp_path, is_complete):
        posted = []
        with (
            pytest.raises(ZeroDivisionError),
            ShardWriter(f"{tmp_path}/a-%d.tar", maxcount=2, post=posted.append) as sink,
        ):
            for number in range(5):
                sink.write(sample(number))
            1 / 0
        assert shards(tmp_path) == ["a-0.tar", "a-1.tar"]
        assert all(is_complete(path) for path in tmp_path.iterdir())
        assert posted == [f"{tmp_path}/a-0.tar", f"{tmp_path}/a-1.tar"]

    def test_a_refused_sample_is_not_counted(self, tmp_path, keys_of):
        with ShardWriter(f"{tmp_path}/a-%d.tar") as sink:
            with pytest.raises(EncodingError):
                sink.write({"__key__": "a.b", "bin": b""})
            sink.write(sample(0))
            assert (sink.count, sink.total) == (1, 1)
        assert keys_of(tmp_path / "a-0.tar") == ["0000"]

    def test_a_refused_first_sample_leaves_no_empty_shard(self, tmp_path):
        with ShardWriter(f"{tmp_path}/a-%d.tar") as sink, pytest.raises(EncodingError):
            sink.write({"__key__": "a.b", "bin": b""})
        assert not shards(tmp_path)

    def test_a_shard_that_cannot_be_published_ends_the_series(self, tmp_path):
        class Full(io.BytesIO):
            def write(self, data):
                raise OSError(28, "No space left on device")

        sink = ShardWriter("a-%d", maxcount=1, opener=lambda name: Full())
        sink.write(sample(0))
        with pytest.raises(OSError, match="No space"):
            sink.write(sample(1))
        with pytest.raises(StoreError, match="closed"):
            sink.write(sample(2))

    def test_a_failed_write_cannot_be_swallowed(self):
        class Full(io.BytesIO):
            def write(self, data):
                raise OSError(28, "No space left on device")

        for before in ([], [sample(0)]):
            sink = ShardWriter("a-%d", opener=lambda name: Full())
            for each in before:
                sink.write(each)
            with pytest.raises(OSError, match="No space"):
                sink.write(sample(1, size=10**6))
            with pytest.raises(StoreError, match="No space"):
                sink.close()

    def test_other_stores(self):
        with ShardWriter("memory://series/a-%d.tar", maxcount=2) as sink:
            for number in range(3):
                sink.write(sample(number))
        found = [
            read["__key__"] for number in range(2) for read in read_shard({"url": f"memory://series/a-{number}.tar"})
        ]
        assert found == ["0000", "0001", "0002"]

    def test_rewriting_replaces_shards_one_by_one(self, tmp_path, keys_of):
        for first in (0, 10):
            with ShardWriter(f"{tmp_path}/a-%d.tar", maxcount=1) as sink:
                sink.write(sample(first))
                if first:
                    assert keys_of(tmp_path / "a-0.tar") == ["0000"], (
                        "the old shard stays until the new one is complete"
                    )
        assert keys_of(tmp_path / "a-0.tar") == ["0010"]


class TestHooks:
    def test_post_sees_the_published_shard_and_may_remove_it(self, tmp_path, is_complete):
        def post(name):
            assert is_complete(tmp_path / os.path.basename(name))
            os.unlink(name)

        with ShardWriter(pattern=f"{tmp_path}/a-%d.tar", maxcount=2, post=post) as sink:
            for number in range(5):
                sink.write(sample(number))
        assert not shards(tmp_path)

    def test_D33_streams_of_an_opener_are_closed(self, tmp_path, keys_of):
        opened = []

        def opener(name):
            opened.append(open(name, "wb"))
            return opened[-1]

        with ShardWriter(f"{tmp_path}/a-%d.tar", maxcount=1, opener=opener) as sink:
            sink.write(sample(0))
            sink.write(sample(1))
            assert [stream.closed for stream in opened] == [True, False]
        assert all(stream.closed for stream in opened)
        assert keys_of(tmp_path / "a-1.tar") == ["0001"]

    def test_streams_of_an_opener_are_aborted_or_closed_when_the_block_raises(self):
        class Abortable(io.BytesIO):
            aborted = False

            def abort(self):
                self.aborted = True

        for stream in (Abortable(), io.BytesIO()):
            with pytest.raises(KeyError), ShardWriter("a-%d", opener=lambda name: stream) as sink:
                sink.write(sample(0))
                raise KeyError
            assert getattr(stream, "aborted", stream.closed)

    @pytest.mark.parametrize(("verbose", "level"), [(1, logging.INFO), (0, logging.DEBUG)])
    def test_D51_a_shard_is_logged_and_nothing_printed(self, tmp_path, caplog, capsys, verbose, level):
        with caplog.at_level(logging.DEBUG), ShardWriter(f"{tmp_path}/a-%d.tar", verbose=verbose) as sink:
            sink.write(sample(0))
        ours = [record for record in caplog.records if record.name.startswith("webdataset")]
        assert [(record.levelno, "a-0.tar" in record.getMessage()) for record in ours] == [(level, True)]
        assert capsys.readouterr() == ("", "")

    def test_tar_writer_arguments_reach_every_shard(self, tmp_path):
        with ShardWriter(tmp_path / "a-%d.tar", maxcount=1, compress="gz", mtime=5) as sink:
            sink.write(sample(0))
            sink.write(sample(1))
        assert {path.read_bytes()[:2] for path in tmp_path.iterdir()} == {b"\x1f\x8b"}


class TestRefusals:
    @pytest.mark.parametrize("pattern", ["a.tar", "a-%d-%d.tar", "a-%20b-%d.tar", "a%", 3, None, b"a-%d", "a-%.0s.tar"])
    def test_patterns_that_cannot_number(self, pattern):
        with pytest.raises(SpecError, match="cannot number shards"):
            ShardWriter(pattern)

    def test_D50_percent_signs_and_paths(self, tmp_path):
        with ShardWriter(tmp_path / "50%%-%02d.tar") as sink:
            sink.write(sample(0))
        assert shards(tmp_path) == ["50%-00.tar"]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"maxcount": 0},
            {"maxcount": "many"},
            {"maxcount": None},
            {"maxsize": -1},
            {"maxsize": float("nan")},
            {"start_shard": -1},
            {"start_shard": 1.5},
            {"post": "print"},
            {"opener": 3},
            {"mode": "rw"},
            {"format": "zip"},
            {"encoder": 3},
        ],
    )
    def test_wrong_arguments_fail_at_construction(self, wrong):
        with pytest.raises(SpecError):
            ShardWriter("a-%d.tar", **wrong)

    def test_unknown_arguments_fail_at_construction(self):
        with pytest.raises(TypeError, match="maxcuont"):
            ShardWriter("a-%d.tar", maxcuont=3)
