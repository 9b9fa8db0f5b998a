import gzip
import io
import json
import os
import pickle
import sys
import tarfile
import tracemalloc

import pytest

from webdataset import stores
from webdataset.errors import (
    BadHeader,
    DuplicateField,
    FormatError,
    ShardNotFound,
    SpecError,
    SplitSample,
    StateError,
    TruncatedShard,
)
from webdataset.flow import Origin, Pass
from webdataset.handlers import ignore_and_continue, ignore_and_stop
from webdataset.samples import ReadSamples, read_shard
from webdataset.samples._read_progress import as_shard


def members(count, first=0):
    return [
        (f"{n:06}.{field}", f"{n}-{field}".encode() * (1 + n % 7))
        for n in range(first, first + count)
        for field in ("cls", "txt")
    ]


def keys(samples):
    return [sample["__key__"] for sample in samples]


def test_a_sample_that_was_handed_on_is_not_held(shard):
    samples = iter(read_shard(str(shard(members(50)))))
    first = next(samples)
    for _ in range(3):
        next(samples)
    alone = {}
    assert sys.getrefcount(first) == sys.getrefcount(alone)  # held by this function only


@pytest.mark.parametrize("readers", [1, 2, 3, 7, 60])
def test_readers_that_share_a_shard_take_turns(shard, readers):
    """A window holds some dozens of these samples; the turns go on from one window to the next."""
    path = str(shard(members(500)))
    alone = keys(read_shard(path))
    for first in range(readers):
        item = as_shard(path) | {"first": first, "step": readers}
        assert keys(read_shard(item)) == alone[first::readers]


def test_a_sample(shard):
    path = shard([("1.jpg", b"..."), ("1.cls", b"7")])
    assert list(read_shard(path)) == [
        {"__key__": "1", "__url__": path, "__local_path__": path, "jpg": b"...", "cls": b"7"}
    ]


def test_streams_are_read_and_closed(tar):
    stream = io.BytesIO(tar([("1.jpg", b"...")]))
    samples = list(read_shard({"url": "http://h/a.tar", "stream": stream}))
    assert samples == [{"__key__": "1", "__url__": "http://h/a.tar", "jpg": b"..."}]
    assert stream.closed


def test_the_shard_says_where_its_file_lies(tar):
    item = {"url": "http://h/a.tar", "local_path": "/cache/a.tar", "stream": io.BytesIO(tar([("1.jpg", b"")]))}
    assert next(read_shard(item))["__local_path__"] == "/cache/a.tar"


def test_D16_nothing_stays_open_when_the_reader_leaves_early(shard):
    samples = read_shard(shard(members(5000)))
    next(samples)
    samples.close()
    assert not [entry for entry in os.listdir("/proc/self/fd") if ".tar" in os.path.realpath(f"/proc/self/fd/{entry}")]


def test_D01_samples_never_reach_over_the_end_of_a_shard(shard):
    cut = shard(tarfile_bytes([("1.a", b"first shard")])[:1024], "cut.tar")
    whole = shard([("1.b", b"second shard")], "whole.tar")
    asked = []
    samples = list(ReadSamples(handler=lambda error: asked.append(error) or True)([{"url": cut}, {"url": whole}]))
    assert [(sample["__url__"], sample["b"]) for sample in samples] == [(whole, b"second shard")]
    assert [type(error) for error in asked] == [TruncatedShard]


def tarfile_bytes(content):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, payload in content:
            info = tarfile.TarInfo(name)
            info.size = len(payload)
            tar.addfile(info, io.BytesIO(payload))
    return archive.getvalue()


def test_equal_keys_in_neighbouring_shards_stay_apart(shard):
    first, second = shard([("1.a", b"")], "a.tar"), shard([("1.b", b"")], "b.tar")
    assert [sorted(s)[-1] for s in ReadSamples()([{"url": first}, {"url": second}])] == ["a", "b"]


def test_D02_the_incomplete_sample_of_a_cut_shard_is_dropped(shard):
    archive = tarfile_bytes(members(10))
    complete = list(read_shard(shard(archive)))
    for cut in range(0, 20 * 1024 + 1024, 100):
        asked = []
        path = shard(archive[:cut], "cut.tar")
        found = list(read_shard(path, handler=lambda error: asked.append(error) or True))
        assert [type(error) for error in asked] == [TruncatedShard]
        assert asked[0].where.shard == path
        assert asked[0].where.offset == cut
        assert [s["cls"] + s["txt"] for s in found] == [s["cls"] + s["txt"] for s in complete[: len(found)]]
        assert len(found) < len(complete) or cut >= 20 * 1024


def test_lenient_reading_gives_what_is_whole(shard):
    archive = tarfile_bytes(members(10))
    assert len(list(read_shard(shard(archive[: 4 * 1024]), strict=False))) == 2


@pytest.mark.parametrize("content", [b"", b"<html>login</html>" * 100, bytes(100)])
def test_what_is_no_archive_is_an_error_that_names_the_shard(shard, content):
    path = shard(content)
    with pytest.raises(FormatError) as caught:
        list(read_shard(path))
    assert caught.value.where.shard == path
    assert caught.value.hint
    assert isinstance(caught.value, tarfile.ReadError)


def test_missing_shards(shard):
    whole = shard([("1.a", b"")])
    with pytest.raises(ShardNotFound):
        list(ReadSamples()([{"url": "missing.tar"}, {"url": whole}]))
    assert keys(ReadSamples(ignore_and_continue)([{"url": "missing.tar"}, {"url": whole}])) == ["1"]
    assert keys(ReadSamples(ignore_and_stop)([{"url": "missing.tar"}, {"url": whole}])) == []


def bad_shards():
    duplicate = members(3) + [("000002.cls", b"again")] + members(2, 3)
    interleaved = members(3) + [("000001.jpg", b"late")] + members(2, 3)
    return {
        DuplicateField: (duplicate, ["000000", "000001", "000002", "000003", "000004"], 2),
        SplitSample: (interleaved, ["000000", "000001", "000002", "000003", "000004"], 3),
    }


@pytest.mark.parametrize("kind", bad_shards())
def test_D25_one_definition_of_stop_and_continue(shard, kind):
    content, on_continue, before = bad_shards()[kind]
    bad, good = shard(content, "bad.tar"), shard([("z.a", b"")], "good.tar")
    for answer, expected in ((True, [*on_continue, "z"]), (False, on_continue[:before])):
        asked = []
        stage = ReadSamples(handler=lambda error: asked.append(error) or answer)
        assert keys(stage([{"url": bad}, {"url": good}])) == expected
        assert [type(error) for error in asked] == [kind]
    samples = ReadSamples()([{"url": bad}, {"url": good}])
    found = []
    with pytest.raises(kind) as caught:
        found.extend(keys([sample]) for sample in samples)
    assert caught.value.where.shard == bad


def test_samples_before_a_failure_are_handed_on(shard):
    """Whatever the window: what was complete before the failure comes first."""
    content, _, before = bad_shards()[SplitSample]
    samples, found = read_shard(shard(content)), []
    with pytest.raises(SplitSample):
        for sample in samples:
            found.append(sample["__key__"])
    assert found == ["000000", "000001", "000002"]


def test_a_damaged_header_costs_the_rest_of_its_shard(shard):
    archive = bytearray(tarfile_bytes(members(10)))
    archive[10 * 1024 + 20] ^= 1
    path, good = shard(bytes(archive), "bad.tar"), shard([("z.a", b"")], "good.tar")
    asked = []
    stage = ReadSamples(handler=lambda error: asked.append(error) or True)
    assert keys(stage([{"url": path}, {"url": good}])) == ["000000", "000001", "000002", "000003", "z"]
    assert [(type(error), error.where.shard, error.where.offset) for error in asked] == [(BadHeader, path, 10 * 1024)]


def test_what_user_functions_raise_goes_to_the_handler(shard):
    path = shard(members(3))

    def refuse(name):
        raise KeyError(name)

    for option in ("rename_files", "select_files", "keys"):
        with pytest.raises(KeyError):
            list(read_shard(path, **{option: refuse}))
        assert list(read_shard(path, handler=ignore_and_continue, **{option: refuse})) == []


def test_D56_links_are_warned_about_once_per_shard(shard):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for n in range(5):
            info = tarfile.TarInfo(f"{n}.txt")
            info.type, info.linkname = (tarfile.SYMTYPE, "elsewhere.txt") if n else (tarfile.REGTYPE, "")
            tar.addfile(info)
    path = shard(archive.getvalue())
    with pytest.warns(UserWarning, match=r"1\.txt at byte 512 is a link to elsewhere.txt.*--dereference") as caught:
        assert keys(read_shard(path)) == ["0"]
    assert len(caught) == 1
    assert path in str(caught[0].message)


@pytest.mark.parametrize(
    "wrong",
    [
        {"handler": 3},
        {"keys": "a"},
        {"opener": None},
        {"rename_files": "x"},
        {"suffixes": "jpg"},
        {"suffixes": 3},
        {"select_files": 3},
    ],
)
def test_wrong_arguments_fail_at_construction(wrong):
    with pytest.raises(SpecError):
        ReadSamples(**wrong)


def test_what_is_no_shard_is_refused():
    with pytest.raises(SpecError, match="expected a shard"):
        list(ReadSamples()([3]))
    with pytest.raises(SpecError, match="expected a shard"):
        as_shard({"name": "a.tar"})


def test_the_stage_is_a_value():
    stage = ReadSamples(ignore_and_continue, select_files="*.jpg", suffixes=("jpg",))
    assert pickle.loads(pickle.dumps(stage)) == stage
    assert repr(stage) == "ReadSamples(handler=ignore_and_continue, select_files='*.jpg', suffixes=('jpg',))"
    assert repr(ReadSamples()) == "ReadSamples()"


def resumed(stage, shards, state):
    at = stage.start(Pass())
    at.load(json.loads(json.dumps(state)), None)
    return stage.run(iter(shards), at)


def tarred(count, first, format):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=format) as tar:
        for name, payload in members(count, first):
            info = tarfile.TarInfo(name if first % 2 else "d/" * 60 + name)
            info.size, info.mtime = len(payload), 1.5 if format == tarfile.PAX_FORMAT else 0
            tar.addfile(info, io.BytesIO(payload))
    return archive.getvalue()


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("seeks", [True, False])
def test_reading_goes_on_from_every_point(shard, format, pack, seeks):
    shards = [{"url": shard(pack(tarred(7, first, format)), f"{first}.tar")} for first in (0, 7, 14)]
    starts = []

    def opener(url, *, start=0):
        starts.append(start)
        return stores.open_read(url, start=start)

    stage = ReadSamples(opener=opener if seeks else lambda url: stores.open_read(url))
    at = stage.start(Pass())
    upstream = iter(shards)
    run, states, samples = stage.run(upstream, at), [at.save()], []
    left = [len(shards)]
    for sample in run:
        samples.append(sample)
        states.append(at.save())
        left.append(len(shards) - int(sample["__key__"][-2:]) // 7 - 1)
    assert len(samples) == 21
    for taken, (state, rest) in enumerate(zip(states, left)):
        assert list(resumed(stage, shards[len(shards) - rest :], state)) == samples[taken:]
    assert any(starts) == (seeks and pack is bytes)


def test_progress_tells_where_the_last_sample_came_from(shard):
    path = shard(members(3))
    stage = ReadSamples()
    at = stage.start(Pass())
    origins = [at.origin for _ in stage.run(iter([{"url": path}]), at)]
    assert origins == [Origin(path, 0, 0), Origin(path, 1, 2048), Origin(path, 2, 4096)]
    assert at.origin is None
    assert at.save() is None


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_every_origin_can_be_read_again(shard, pack):
    path = shard(pack(tarfile_bytes(members(20))))
    stage = ReadSamples()
    at = stage.start(Pass())
    pairs = [(sample, at.origin) for sample in stage.run(iter([{"url": path}]), at)]
    for sample, origin in pairs:
        assert stage.recall(json.loads(json.dumps(origin))) == sample
        assert stage.recall(list(origin)[:3]) == sample, "as checkpoints had it before there were draws"


def test_recalling_what_is_gone_is_an_error(shard):
    path = shard(members(3))
    with pytest.raises(StateError, match="sample 7 not found"):
        ReadSamples(ignore_and_continue).recall(Origin(path, 7, -1))


def test_progress_leaves_streams_out_of_the_state(tar):
    stage = ReadSamples()
    at = stage.start(Pass())
    run = stage.run(iter([{"url": "a.tar", "stream": io.BytesIO(tar(members(3)))}]), at)
    next(run)
    assert json.loads(json.dumps(at.save())) == {"shard": {"url": "a.tar"}, "taken": 1, "offset": 0}
    run.close()


def test_compressed_shards(shard):
    path = shard(gzip.compress(tarfile_bytes(members(50))), "a.tar.gz")
    assert keys(read_shard(path)) == [f"{n:06}" for n in range(50)]
    broken = shard(gzip.compress(tarfile_bytes(members(50)))[:-4], "b.tar.gz")
    with pytest.raises(TruncatedShard, match="gzip stream is truncated"):
        list(read_shard(broken))


def test_D06_concatenated_shards(shard):
    path = shard(tarfile_bytes(members(3)) + tarfile_bytes(members(2, 3)))
    assert len(list(read_shard(path))) == 5
    assert len(list(read_shard(path, concatenated=False))) == 3


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_what_the_handler_forgave_is_forgiven_when_it_is_read_again(shard, pack):
    twice = [(f"{n:02}.{field}", b"%d" % n) for n in range(6) for field in ("txt", "txt" if n % 2 else "cls")]
    path = shard(pack(tarfile_bytes(twice)))
    stage = ReadSamples(ignore_and_continue)
    at = stage.start(Pass())
    for sample in stage.run(iter([{"url": path}]), at):
        assert stage.recall(at.origin) == sample


def test_a_key_that_comes_back_is_noticed_after_a_resume_too(shard):
    path = shard([(f"{key}.{number}", b"") for number, key in enumerate("abcadbe")])
    stage = ReadSamples(ignore_and_continue)
    at = stage.start(Pass())
    run, states = stage.run(iter([{"url": path}]), at), []
    assert keys(sample for sample in run if states.append(at.save()) is None) == list("abcde")
    for number, state in enumerate(states, 1):
        assert keys(resumed(stage, [], state)) == list("abcde")[number:]
    with pytest.raises(SplitSample):
        list(resumed(ReadSamples(), [], states[1]))


def test_members_of_compressed_shards_have_the_limit_of_the_environment(tar, tmp_path, monkeypatch):
    import gzip

    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(tar([("1.bin", bytes(3_000_000))])))
    assert [len(sample["bin"]) for sample in read_shard(str(path))] == [3_000_000]
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "2e6")
    with pytest.raises(FormatError, match=r"has 3,000,000 bytes.*WDS_DECOMPRESS_LIMIT"):
        list(read_shard(str(path)))


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("options", [{}, {"copy": False}])
def test_samples_of_compressed_shards_have_the_limit_too(tar, tmp_path, monkeypatch, format, options):
    """Each member is within the limit; with PAX they are read one by one."""
    names = {tarfile.USTAR_FORMAT: "2.{}", tarfile.PAX_FORMAT: "2.ä{}"}[format]
    large = [(names.format(number), bytes(1_000_000)) for number in range(50)]
    archive = tar([("1.bin", b"abc"), *large, ("3.bin", bytes(1_900_000))], format=format)
    packed, plain = tmp_path / "a.tar.gz", tmp_path / "a.tar"
    packed.write_bytes(gzip.compress(archive))
    plain.write_bytes(archive)
    assert [len(sample) for sample in read_shard(str(packed), **options)] == [4, 53, 4]
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "2e6")
    assert [len(sample) for sample in read_shard(str(plain), **options)] == [4, 53, 4]
    found = []
    with pytest.raises(FormatError, match=r"has .* bytes or more – sample 2, .*a.tar.gz – raise WDS_DECOMPRESS_LIMIT"):
        found.extend(keys([sample]) for sample in read_shard(str(packed), **options))
    assert found == [["1"]]
    asked = []
    tracemalloc.start()
    try:
        lenient = read_shard(str(packed), handler=lambda error: asked.append(error) or True, **options)
        assert keys(lenient) == ["1", "3"]
        assert tracemalloc.get_traced_memory()[1] < 16_000_000
    finally:
        tracemalloc.stop()
    assert len(asked) == 1
