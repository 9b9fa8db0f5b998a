"""An index that lacks a row is found out in every way of reading, whichever row it is and however the shard was written."""

import io
import tarfile

import numpy as np
import pytest

from webdataset.errors import FormatError, StaleIndex
from webdataset.index import (
    Description,
    IndexedShards,
    ShardEntry,
    ShardReader,
    build_index,
    read_dali,
    save_index,
    write_dali,
)

STYLES = {
    "ustar": (tarfile.USTAR_FORMAT, "{:04d}", {}),
    "times": (tarfile.PAX_FORMAT, "{:04d}", {"mtime": "1700000000.123456"}),
    "long names": (tarfile.GNU_FORMAT, "d" * 120 + "{:04d}", {}),
    "pax names": (tarfile.PAX_FORMAT, "é" * 80 + "{:04d}", {}),
}
SAMPLES = 7


@pytest.fixture(params=STYLES)
def shard(request, tmp_path):
    style, name, records = STYLES[request.param]
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=style) as archive:
        for number in range(SAMPLES):
            for field, size in (("npy", 600), ("cls", 0 if number % 2 else 3)):
                info = tarfile.TarInfo(f"{name.format(number)}.{field}")
                info.size, info.pax_headers = size, dict(records)
                archive.addfile(info, io.BytesIO(bytes([number]) * size))
    return path


def without(path, dropped):
    """The text of the index of a shard without some lines."""
    head, *lines = write_dali(build_index(str(path))).decode().splitlines()
    kept = [line for number, line in enumerate(lines) if number not in dropped]
    return "\n".join([f"{head.split()[0]} {len(kept)}", *kept, ""]).encode()


def test_a_whole_index_passes(shard):
    reader = ShardReader(str(shard), build_index(str(shard)))
    samples = [reader.sample(number) for number in range(SAMPLES)]
    assert [sample["npy"][0] for sample in samples] == list(range(SAMPLES))
    assert reader.column(np.arange(SAMPLES), "npy")[:, 0].tolist() == list(range(SAMPLES))


@pytest.mark.parametrize("dropped", [*({n} for n in range(SAMPLES)), {0, 1}, {2, 3}, {1, 4}, set(range(SAMPLES - 1))])
def test_a_missing_row_is_an_error_in_every_order(shard, dropped):
    text = without(shard, dropped)
    kept = SAMPLES - len(dropped)
    ways = {
        "one look-up": lambda reader: reader.sample(kept - 1),
        "many look-ups": lambda reader: reader.samples(list(range(kept))[::-1]),
        "a column": lambda reader: reader.column(np.arange(kept), "npy"),
        "one field": lambda reader: reader.samples([0], ["npy"]),
    }
    for way, read in ways.items():
        with pytest.raises(StaleIndex, match="does not list|more samples after|expected a member"):
            read(ShardReader(str(shard), read_dali(text)))
            pytest.fail(f"{way} did not notice")


def test_a_missing_member_of_a_sample_is_an_error_too(shard):
    text = write_dali(build_index(str(shard))).decode().splitlines()
    words = text[3].split()
    text[3] = " ".join(words[4:])
    reader = ShardReader(str(shard), read_dali(("\n".join(text) + "\n").encode()))
    with pytest.raises(StaleIndex):
        reader.samples(range(SAMPLES))


def test_datasets_notice_when_they_are_shuffled(shard):
    shard.with_suffix(".idx").write_bytes(without(shard, {3}))
    with IndexedShards([str(shard)]) as dataset, pytest.raises(StaleIndex, match="does not list"):
        dataset[5]


@pytest.mark.parametrize("dropped", [0, SAMPLES])
def test_an_index_without_any_row_is_an_error_for_whole_datasets(shard, dropped):
    """No order opens a shard that has no samples, according to its index or to a description."""
    shard.with_suffix(".idx").write_bytes(b"v1.2 0\n" + without(shard, range(dropped)).partition(b"\n")[2])
    with pytest.raises((StaleIndex, FormatError), match="announces 0 samples and has 7|counts 0 samples, the index 7"):
        IndexedShards([str(shard)])
    save_index(build_index(str(shard)), str(shard))
    with pytest.raises(StaleIndex, match="counts 0 samples, the index 7"):
        IndexedShards(Description((ShardEntry(str(shard), 0),)))


def test_a_shard_without_samples_passes(tmp_path):
    tarfile.open(tmp_path / "a.tar", "w").close()
    save_index(build_index(str(tmp_path / "a.tar")), str(tmp_path / "a.tar"))
    assert len(IndexedShards([str(tmp_path / "a.tar")])) == 0


def test_members_that_belong_to_no_sample_are_no_gaps(tmp_path):
    path = tmp_path / "b.tar"
    with tarfile.open(path, "w") as archive:
        for name, size in [
            ("dir", None),
            ("a.txt", 3),
            ("README", 5000),
            ("__meta__/x.json", 9),
            ("b.txt", 3),
            (".hidden.txt", 2_000_000),
            ("c.txt", 3),
        ]:
            info = tarfile.TarInfo(name)
            info.type, info.size = (tarfile.DIRTYPE, 0) if size is None else (tarfile.REGTYPE, size)
            archive.addfile(info, io.BytesIO(bytes(info.size)))
    reader = ShardReader(str(path), build_index(str(path)))
    assert [reader.sample(number)["__key__"] for number in range(3)] == ["a", "b", "c"]
