"""Whole batches against the same samples read one by one."""

import pickle

import numpy as np
import pytest

import webdataset as wds
from webdataset.codecs import numpy_dumps
from webdataset.errors import FormatError, SpecError
from webdataset.index import IndexedShards

COUNTS = (7, 3, 12)


def shards(folder, counts=COUNTS, array=lambda number: np.full((2, 3), number, "u2")):
    names, number = [], 0
    for shard, count in enumerate(counts):
        names.append(str(folder / f"{shard}.tar"))
        with wds.TarWriter(names[-1]) as sink:
            for _ in range(count):
                sink.write({"__key__": f"{number:04}", "x.npy": array(number), "cls": number})
                number += 1
    return names


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("batchsize", [1, 4, 22, 100])
def test_the_batches_are_those_of_the_samples(tmp_path, batchsize, indexed):
    names = shards(tmp_path)
    if indexed:
        wds.index_shards(names)
    batches = wds.ArrayBatches(names, "x.npy", batchsize)
    expected = [
        np.asarray(batch)
        for (batch,) in wds.WebDataset(names, shardshuffle=False).decode().to_tuple("x.npy").batched(batchsize)
    ]
    assert len(batches) == len(expected)
    for ours, theirs in zip(batches, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
        assert ours.flags.writeable


def test_a_seed_mixes_all_and_keeps_all(tmp_path):
    names = shards(tmp_path)

    def order(**how):
        return np.concatenate(list(wds.ArrayBatches(names, "x.npy", 5, **how)))[:, 0, 0].tolist()

    assert order(seed=1) != order() == list(range(22))
    assert sorted(order(seed=1)) == list(range(22))
    assert order(seed=1) == order(seed=1) != order(seed=1, epoch=1)


def test_out_of_a_place_without_a_file(tmp_path):
    with wds.TarWriter("memory://array-batches/a.tar") as sink:
        for number in range(5):
            sink.write({"__key__": str(number), "npy": np.arange(600) + number})
    batches = wds.ArrayBatches("memory://array-batches/a.tar", batchsize=2)
    assert batches[-1].tolist() == [(np.arange(600) + 4).tolist()]


def test_the_last_bytes_of_a_file_without_room_behind_them(tmp_path):
    """Whole blocks are gathered; the last one ends where the file ends."""
    names = shards(tmp_path, (3,), lambda number: np.full(448, number, "u1"))  # header and data fill 576 bytes
    assert [batch[0, 0] for batch in wds.ArrayBatches(names, "x.npy", 1)] == [0, 1, 2]


def test_arrays_in_fortran_order_and_of_two_types(tmp_path):
    names = shards(tmp_path, (3,), lambda number: np.asfortranarray(np.arange(6.0).reshape(2, 3)) + number)
    np.testing.assert_array_equal(wds.ArrayBatches(names, "x.npy")[0][2], np.arange(6.0).reshape(2, 3) + 2)
    names = shards(tmp_path, (2,), lambda number: np.full(4, number, ["i4", "f4"][number]))
    np.testing.assert_array_equal(wds.ArrayBatches(names, "x.npy")[0], [[0] * 4, [1] * 4])


def test_different_sizes_are_an_error(tmp_path):
    names = shards(tmp_path, (4,), lambda number: np.zeros(3 + number))
    with pytest.raises(FormatError, match="different sizes"):
        wds.ArrayBatches(names, "x.npy")[0]
    names = shards(tmp_path, (2, 2), lambda number: np.zeros(3 if number < 2 else 90))
    with pytest.raises(FormatError, match="different sizes"):
        wds.ArrayBatches(names, "x.npy")[0]


def test_a_field_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(FormatError, match="not every sample has one field 'npy'"):
        wds.ArrayBatches(shards(tmp_path), "npy")[0]


def test_columns_of_a_view(tmp_path):
    with IndexedShards(shards(tmp_path)) as dataset:
        assert [bytes(row) for row in dataset[20:0:-7].column([0, 1], "cls")[:1]] == [b"20"]
        with pytest.raises(IndexError):
            dataset.column([22], "cls")


def test_wrong_sizes_fail_at_once_and_it_can_be_sent_away(tmp_path):
    with pytest.raises(SpecError):
        wds.ArrayBatches("a.tar", batchsize=0)
    batches = wds.ArrayBatches(shards(tmp_path), "x.npy", 4)
    assert len(pickle.loads(pickle.dumps(batches))) == len(batches) == 6
    assert sum(map(len, wds.WebLoader(batches, batch_size=None, num_workers=2, workers="threads"))) == 22


def test_bytes_after_an_array_are_not_part_of_it(tmp_path):
    name = str(tmp_path / "a.tar")
    with wds.TarWriter(name, encoder=False) as sink:
        for number in range(3):
            sink.write({"__key__": str(number), "npy": numpy_dumps(np.full(4, number, "u2")) + b"after"})
    assert [row.tolist() for row in wds.ArrayBatches(name)[0]] == [[number] * 4 for number in range(3)]
