"""Whatever was changed in an index: every order of reading gives each sample once, as it is stored, or an error."""

import io
import tarfile
from itertools import islice

import pytest

import webdataset as wds
from webdataset.index import build_index, write_dali

FIELDS = ("cls", "npy", "txt")


def write(path, keys, sizes):
    """A shard, and its samples as they have to be read."""
    samples = [
        {"__key__": key, **{field: f"{key}.{field}".encode() * size for field in FIELDS}}
        for key, size in zip(keys, sizes, strict=True)
    ]
    with tarfile.open(path, "w") as archive:
        for sample in samples:
            for field in FIELDS:
                info = tarfile.TarInfo(f"{sample['__key__']}.{field}")
                info.size = len(sample[field])
                archive.addfile(info, io.BytesIO(sample[field]))
    return samples


# Each edit is given the lines of an index, as lists of members [field, offset, size, name], and the number of a line.


def drop(rows, at):
    del rows[at]


def swap(rows, at):
    rows[at - 1], rows[at] = rows[at], rows[at - 1]


def twice(rows, at):
    rows.insert(at, rows[at])


def in_two_lines(rows, at):
    rows[at : at + 1] = [rows[at][:1], rows[at][1:]]


def two_in_one_line(rows, at):
    rows[at - 1 : at + 1] = [rows[at - 1] + rows[at]]


def in_the_next_line(rows, at):
    rows[at].insert(0, rows[at - 1].pop())


def without_a_member(rows, at):
    del rows[at][1]


def in_another_order(rows, at):
    rows[at].reverse()


def moved(rows, at):
    for row in rows[at:]:
        for member in row:
            member[1] += 512


def one_moved(rows, at):
    rows[at][-1][1] -= 512


def longer(rows, at):
    rows[at][1][2] += 1


def another_field(rows, at):
    rows[at][1][0] = "jpg"
    rows[at][1][3] = rows[at][1][3].replace("npy", "jpg")


def another_key(rows, at):
    for member in rows[at]:
        member[3] = "x" + member[3]


def fields_exchanged(rows, at):
    for place in (0, 3):
        rows[at][0][place], rows[at][2][place] = rows[at][2][place], rows[at][0][place]


def two_edits(rows, at):
    in_two_lines(rows, at)
    drop(rows, at - 1)


EDITS = (
    drop, swap, twice, in_two_lines, two_in_one_line, in_the_next_line, without_a_member, in_another_order, moved,
    one_moved, longer, another_field, another_key, fields_exchanged, two_edits,
)  # fmt: skip


def edited(path, edit, at, words):
    """The text of the index of a shard after an edit; with three words a member it does not tell names."""
    lines = [line.split() for line in write_dali(build_index(path)).decode().splitlines()[1:]]
    rows = [[[m[0], int(m[1]), int(m[2]), m[3]] for m in zip(*[iter(line)] * 4, strict=True)] for line in lines]
    edit(rows, at)
    text = [" ".join(str(word) for member in row for word in member[:words]) for row in rows]
    return "\n".join([f"v1.{words - 2} {len(text)}", *text, ""]).encode()


def streamed(shards, **options):
    return iter(wds.WebDataset(shards, index=True, shardshuffle=False, **options))


def by_ranks(shards, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        yield from (sample for sample in streamed(shards, uneven="pad") if not sample["__pad__"])


def resumed(shards, after):
    dataset = wds.WebDataset(shards, index=True, shardshuffle=False)
    yield from islice(dataset, after)
    again = wds.WebDataset(shards, index=True, shardshuffle=False)
    again.load_state_dict(dataset.state_dict())
    yield from again


def looked_up(shards, **options):
    dataset = wds.IndexedDataset(shards, **options)
    return (dict(dataset[number]) for number in reversed(range(len(dataset))))


WAYS = {
    "order of storage": lambda shards, patch: streamed(shards),
    "shuffled": lambda shards, patch: streamed(shards, order="random"),
    "some fields": lambda shards, patch: streamed(shards, order="random", fields=["npy"]),
    "two ranks": by_ranks,
    **{f"resumed after {n}": (lambda shards, patch, n=n: resumed(shards, n)) for n in (1, 3, 4, 5, 7)},
    "look-ups": lambda shards, patch: looked_up(shards),
    "look-ups as needed": lambda shards, patch: looked_up(shards, lazy=True),
    "together": lambda shards, patch: wds.IndexedDataset(shards).__getitems__(range(8)),
}


def check(shards, truth, monkeypatch):
    """Read in every way; what came must be true, and all of it, or else an error."""
    for way, read in WAYS.items():
        expected = {sample["__key__"]: sample for sample in truth}
        if way == "some fields":
            expected = {key: {"__key__": key, "npy": sample["npy"]} for key, sample in expected.items()}
        try:
            with monkeypatch.context() as patch:
                for sample in read(shards, patch):
                    found = {name: value for name, value in sample.items() if name in ("__key__", *FIELDS)}
                    assert expected.pop(sample["__key__"], None) == found, way
            assert not expected, way
        except (wds.WebDatasetError, IndexError, KeyError):
            continue


@pytest.mark.parametrize("at", [2, pytest.param(1, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("words", [4, 3])
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_no_sample_is_lost_or_wrong_in_silence(edit, words, at, tmp_path, monkeypatch):
    paths = [str(tmp_path / f"{number}.tar") for number in range(2)]
    truth = write(paths[0], "abcd", [1, 1, 1, 1]) + write(paths[1], "efgh", [1, 300, 2, 150])
    for wrong in paths:
        for path in paths:
            text = edited(path, edit if path == wrong else lambda *_: None, at, words)
            (tmp_path / path.replace(".tar", ".idx")).write_bytes(text)
        check(paths, truth, monkeypatch)


@pytest.mark.parametrize("keys", ["abcd", "efgh", "bacd", "dcba", "abc", "xabcd", "abxd", "abcdx"])
def test_an_index_of_another_shard_or_version(keys, tmp_path, monkeypatch):
    paths = [str(tmp_path / f"{number}.tar") for number in range(2)]
    for sizes in ([1] * 5, [1, 200, 1, 1, 90]):
        truth = write(paths[0], "ijkl", [1] * 4) + write(paths[1], "abcd", sizes[:4])
        (tmp_path / "0.idx").write_bytes(write_dali(build_index(paths[0])))
        write(str(tmp_path / "old.tar"), keys, sizes[: len(keys)])
        (tmp_path / "1.idx").write_bytes(write_dali(build_index(str(tmp_path / "old.tar"))))
        check(paths, truth, monkeypatch)
