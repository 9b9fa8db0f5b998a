"""Whole batches against the same samples read one by one."""

import itertools
import json
import pickle
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import webdataset as wds
from webdataset import world
from webdataset.codecs import numpy_dumps
from webdataset.errors import FormatError, SpecError, StateError
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


@pytest.mark.parametrize("batchsize", [1, 5, 11, 100])
@pytest.mark.parametrize("located", [1, 2, 3, 16])
def test_iterating_gives_the_batches_of_the_sequence(tmp_path, monkeypatch, batchsize, located):
    """Positions of several batches are located together."""
    monkeypatch.setattr("webdataset.plan._array_batches._LOCATED", located)
    batches = wds.ArrayBatches(shards(tmp_path), "x.npy", batchsize, seed=3)
    by_number = [batches[number].tolist() for number in range(len(batches))]
    assert [batch.tolist() for batch in batches] == by_number


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


@pytest.mark.parametrize("number", [0, 5, 8])
def test_an_array_that_is_damaged_is_named(tmp_path, number):
    names = shards(tmp_path)
    with IndexedShards(names) as samples:
        at = samples.where(number)
    offset, size = next((each.offset, each.size) for each in at.extents if each.field == "x.npy")
    with open(at.url, "r+b") as file:
        file.seek(offset)
        file.write(bytes(size))
    batches = wds.ArrayBatches(names, "x.npy", batchsize=10)
    with pytest.raises(FormatError, match=f"not an npy file – field x.npy, sample {number:04}, {at.url}"):
        batches[0]
    batches.close()


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


LOADERS = [
    {},
    {"num_workers": 1},
    {"num_workers": 2},
    {"num_workers": 3, "persistent_workers": True},
    {"num_workers": 0, "workers": "threads"},
    {"num_workers": 2, "workers": "threads"},
]


def rows(batches):
    return [np.asarray(batch)[:, 0, 0].tolist() for batch in batches]


@pytest.mark.parametrize("how", LOADERS, ids=str)
def test_every_loader_has_the_same_batches_and_goes_on_in_any_other(tmp_path, how):
    pytest.importorskip("torch")
    epochs = [wds.ArrayBatches(shards(tmp_path), "x.npy", 4, seed=1, epoch=epoch) for epoch in range(3)]
    expected = [rows(epoch) for epoch in epochs]
    assert expected[0] != expected[1] != expected[2]

    def loader(settings=how):
        return wds.WebLoader(epochs[0], **settings)

    whole = loader()
    assert len(whole) == len(expected[0]) == 6
    assert [rows(whole) for _ in range(3)] == expected
    assert whole.stats().items == 6
    for taken, settings in zip(range(1, 7), LOADERS, strict=True):
        first = loader()
        items = iter(first)
        assert rows(next(items) for _ in range(taken)) == expected[0][:taken]
        later = loader(settings)
        later.load_state_dict(json.loads(json.dumps(first.state_dict())))
        items.close()
        assert [rows(later), rows(later)] == [expected[0][taken:], expected[1]]
    numbered = loader()
    numbered.set_epoch(2)
    assert rows(numbered) == expected[2]


def steps_of(batches, ranks, count=None, state=None):
    """The batches of all ranks, step by step, and the state of the first rank after them."""
    found, saved = [], None
    for rank in range(ranks):
        with world.pretend(world.World(rank, ranks)):
            dataset = wds.DataPipeline(batches)
            if state is not None:
                dataset.load_state_dict(state)
            found.append(rows(islice(iter(dataset), count)))
            saved = saved or dataset.state_dict()
            assert count is not None or state is not None or len(dataset) == len(found[-1])
    return [batch for step in zip(*found, strict=True) for batch in step], saved


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("batchsize", [1, 4, 5, 22, 30])
def test_ranks_have_equal_steps_and_others_go_on(tmp_path, batchsize, seed):
    """Mutation: let every rank read all batches."""
    batches = wds.ArrayBatches(shards(tmp_path), "x.npy", batchsize, seed=seed)
    order = sum(rows(batches), [])
    for ranks in (1, 2, 3):
        whole, _ = steps_of(batches, ranks)
        assert sum(whole, [])[:22] == order
        for count, later in itertools.product(range(len(whole) // ranks), (1, 2, 3)):
            before, state = steps_of(batches, ranks, count)
            after, _ = steps_of(batches, later, state=json.loads(json.dumps(state)))
            assert sum(before + after, [])[:22] == order


def test_closing_a_pipeline_closes_the_shards(tmp_path):
    names = shards(tmp_path)
    dataset = wds.DataPipeline(wds.ArrayBatches(names, "x.npy", 22))
    expected = rows(dataset)
    dataset.close()
    opened = {str(path.resolve()) for path in Path("/proc/self/fd").iterdir()}
    assert opened.isdisjoint(names)
    assert rows(dataset) == expected


def test_another_number_of_samples_is_refused(tmp_path):
    dataset = wds.DataPipeline(wds.ArrayBatches(str(tmp_path / "*.tar"), "x.npy", 2))
    names = shards(tmp_path)
    next(iter(dataset))
    state = dataset.state_dict()
    Path(names[0]).unlink()
    again = wds.DataPipeline(wds.ArrayBatches(str(tmp_path / "*.tar"), "x.npy", 2))
    again.load_state_dict(state)
    with pytest.raises(StateError, match="of 22 samples, the dataset has 15"):
        next(iter(again))


@pytest.mark.parametrize("failing", range(6))
def test_a_batch_whose_function_fails_is_tried_again(tmp_path, failing):
    """Each of them, also the last one, which is short."""
    batches = wds.ArrayBatches(shards(tmp_path), "x.npy", 4, seed=1)
    number = rows(batches)[failing][0]

    def fails(batch):
        if number in batch[:, 0, 0]:
            raise ValueError(number)
        return batch

    first, got = wds.DataPipeline(batches, wds.map(fails)), []
    with pytest.raises(ValueError, match=str(number)):
        got.extend(batch[:, 0, 0].tolist() for batch in first)
    again = wds.DataPipeline(batches, wds.map(fails))
    again.load_state_dict(first.state_dict())
    with pytest.raises(ValueError, match=str(number)):
        next(iter(again))
    assert got == rows(batches)[:failing]


@pytest.mark.parametrize("how", LOADERS, ids=str)
def test_stages_after_the_batches(tmp_path, how):
    """A stage that holds batches saves their positions; they are read again."""
    pytest.importorskip("torch")
    batches = wds.ArrayBatches(shards(tmp_path), "x.npy", 2, seed=1)
    dataset = wds.DataPipeline(batches, wds.shuffle(3), wds.map(lambda batch: batch + 1))

    def loader():
        return wds.WebLoader(dataset.compose(), batch_size=None, **how)

    whole = loader()
    epochs = [rows(whole), rows(whole)]
    assert all(sorted(sum(epoch, [])) == list(range(1, 23)) for epoch in epochs)
    for taken in (1, 4, 10):
        first = loader()
        items = iter(first)
        for _ in range(taken):
            next(items)
        later = loader()
        later.load_state_dict(first.state_dict())
        items.close()
        assert [rows(later), rows(later)] == [epochs[0][taken:], epochs[1]]


def test_an_order_of_torch_is_left_to_torch(tmp_path):
    pytest.importorskip("torch")
    batches = wds.ArrayBatches(shards(tmp_path), "x.npy", 4)
    for num_workers in (0, 2):
        backwards = wds.WebLoader(batches, batch_size=None, sampler=range(5, -1, -1), num_workers=num_workers)
        assert rows(backwards) == rows(batches)[::-1]
        mixed = wds.WebLoader(batches, batch_size=None, shuffle=True, num_workers=num_workers)
        assert sorted(rows(mixed)) == rows(batches)
        plain = wds.WebLoader(batches, batch_size=None, shuffle=False, sampler=None, num_workers=num_workers)
        assert plain.state_dict()["dataset"]["stages"][0].startswith("ArrayBatches")


def test_what_the_consumer_keeps_stays_as_it_is(tmp_path):
    """Batches are made in shared memory that is used again; not while somebody has it."""
    pytest.importorskip("torch")
    names = shards(tmp_path, (60,), lambda number: np.full((300, 300), number, "u2"))
    batches = wds.ArrayBatches(names, "x.npy", 2)
    kept = list(wds.WebLoader(batches, batch_size=None, num_workers=2))
    assert rows(kept) == [[number, number + 1] for number in range(0, 60, 2)]
    assert all((batch == batch[:, :1, :1]).all() for batch in kept)


def test_a_failure_in_a_worker_process_is_the_same_error(tmp_path):
    pytest.importorskip("torch")
    names = shards(tmp_path, (2, 2), lambda number: np.zeros(3 if number < 2 else 90))
    with pytest.raises(FormatError, match="different sizes"):
        list(wds.WebLoader(wds.ArrayBatches(names, "x.npy", 4), batch_size=None, num_workers=1))
