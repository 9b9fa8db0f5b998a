"""`failed="replace"`: equal steps and full batches on all ranks although samples fail or are filtered out."""

import itertools
import json
import random
from contextlib import closing

import pytest

import webdataset as wds
from tests.pipeline.indexed import write_shards
from webdataset import world
from webdataset.errors import SpecError, StageError

COUNTS = (7, 1, 12, 6, 5)
N, BATCH = sum(COUNTS), 3
TOPOLOGIES = [(1, 1), (2, 1), (3, 1), (1, 2), (2, 3), (4, 2)]  # ranks and workers


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("replace"), COUNTS)


def number_of(sample):
    return int(sample["__key__"])


class Fails:
    """Fails for some samples; a map that knows which."""

    def __init__(self, *bad):
        self.bad = set(bad)

    def __call__(self, sample):
        if number_of(sample) in self.bad:
            raise ValueError(sample["__key__"])
        return sample


class Keeps(Fails):
    def __call__(self, sample):
        return number_of(sample) not in self.bad


def pairs(samples):
    return [[number_of(sample), sample["__pad__"]] for sample in samples]


def dataset_of(shards, bad=(), filtered=(), batch=BATCH, **options):
    dataset = wds.WebDataset(shards, index=True, order="random", seed=3, failed="replace", **options)
    dataset = dataset.map(Fails(*bad), handler=wds.ignore_and_continue).select(Keeps(*filtered))
    return dataset.batched(batch, collation_fn=pairs) if batch else dataset


def read_by(shards, ranks, workers, stop=None, state=None, **options):
    """The batches of every rank, workers in turn, up to a step; and the states of the ranks then."""
    found, states = [], []
    for rank in range(ranks):
        parts = []
        for worker in range(workers):
            with world.pretend(world.World(rank, ranks, worker, workers)):
                dataset = dataset_of(shards, **options)
                if state is not None:
                    dataset.load_state_dict(state)
                parts.append(list(itertools.islice(dataset, stop)))
                states.append(json.loads(json.dumps(dataset.state_dict())))
        turns = itertools.chain.from_iterable(itertools.zip_longest(*parts))
        found.append([batch for batch in turns if batch is not None])
    return found, states


def check_epoch(ranks, bad):
    """Equal steps; full batches; every good sample once without padding."""
    assert len({len(batches) for batches in ranks}) == 1, [len(batches) for batches in ranks]
    flat = [pair for batches in ranks for batch in batches for pair in batch]
    assert sorted(number for number, pad in flat if not pad) == [n for n in range(N) if n not in bad]
    assert not {number for number, _ in flat} & set(bad)
    if len(ranks) > 1:
        assert {len(batch) for batches in ranks for batch in batches} == {BATCH}


@pytest.mark.parametrize(("ranks", "workers"), TOPOLOGIES)
@pytest.mark.parametrize("many", [0, 1, 5, 20, N - 1])
def test_all_ranks_have_equal_steps_and_full_batches(shards, ranks, workers, many):
    left_out = random.Random(many).sample(range(N), many)
    bad, filtered = left_out[::2], left_out[1::2]
    found, _ = read_by(shards, ranks, workers, bad=bad, filtered=filtered)
    check_epoch(found, left_out)
    with world.pretend(world.World(0, ranks)):
        assert len(dataset_of(shards, bad, filtered)) == len(found[0])


@pytest.mark.parametrize("stop", range(5))
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_resumed_run_has_the_same_batches(shards, ranks, stop):
    left_out = random.Random(7).sample(range(N), 12)
    options = {"bad": left_out[::2], "filtered": left_out[1::2]}
    expected, _ = read_by(shards, ranks, 1, **options)
    seen, states = read_by(shards, ranks, 1, stop=stop, **options)
    assert all(state == states[0] for state in states), "one checkpoint for all ranks"
    rest, _ = read_by(shards, ranks, 1, state=states[0], **options)
    found = [one + other for one, other in zip(seen, rest, strict=True)]
    assert [batches[:-1] for batches in found] == [batches[:-1] for batches in expected]
    assert _counted(found) == _counted(expected)  # padding of the uneven end comes from what remained


def _counted(ranks):
    return [[[number for number, pad in batch if not pad] for batch in batches] for batches in ranks]


@pytest.mark.parametrize("stop", [1, 3, *(pytest.param(stop, marks=pytest.mark.long) for stop in (0, 2))])
@pytest.mark.parametrize(("before", "after"), [*itertools.permutations([1, 2, 3], 2)])
def test_other_ranks_go_on_and_replace_likewise(shards, before, after, stop):
    left_out = random.Random(8).sample(range(N), 12)
    options = {"bad": left_out, "filtered": ()}
    seen, states = read_by(shards, before, 1, stop=stop, **options)
    rest, _ = read_by(shards, after, 1, state=states[0], **options)
    flat = [
        number for ranks in (seen, rest) for batches in ranks for batch in batches for number, pad in batch if not pad
    ]
    assert sorted(flat) == [n for n in range(N) if n not in left_out]
    assert len({len(batches) for batches in rest}) == 1


LOADERS = [("threads", 0), ("threads", 2), ("processes", 0), ("processes", 2)]


@pytest.mark.parametrize(("workers", "number"), LOADERS)
def test_loaders_bring_the_same_batches_and_resume_at_every_step(shards, workers, number):
    left_out = random.Random(9).sample(range(N), 15)
    make = lambda: wds.WebLoader(
        dataset_of(shards, left_out[::2], left_out[1::2]), batch_size=None, num_workers=number, workers=workers
    )
    expected = read_by(shards, 1, 1, bad=left_out[::2], filtered=left_out[1::2])[0][0]
    with closing(make()) as loader:
        assert len(loader) == len(expected)
        states = [json.dumps(loader.state_dict())]
        seen = []
        for batch in loader:
            seen.append(batch)
            states.append(json.dumps(loader.state_dict()))
    assert seen == expected
    for step in range(len(states)) if (workers, number) != ("processes", 2) else (1, len(states) // 2):
        with closing(make()) as again:
            again.load_state_dict(json.loads(states[step]))
            assert list(again) == expected[step:]


def test_the_loader_s_batch_size_and_samples_without_batches(shards):
    bad = (3, 4, 5, 29)
    loader = wds.WebLoader(dataset_of(shards, bad, batch=None), batch_size=BATCH, collate_fn=pairs)
    assert list(loader) == read_by(shards, 1, 1, bad=bad)[0][0]
    single = dataset_of(shards, bad, batch=None)
    found = pairs(single)
    assert len(found) == N == len(single)
    check_epoch([[found]], bad)
    one = dataset_of(shards, bad, batch=None)
    with closing(wds.WebLoader(one, batch_size=None, num_workers=2, workers="threads")) as threads:
        assert pairs(threads) == found


def test_replacements_are_marked_whatever_functions_make_of_samples(shards):
    dataset = wds.WebDataset(shards, index=True, failed="replace").map(Fails(4), handler=wds.ignore_and_continue)
    batches = list(dataset.to_tuple("__key__", "__pad__").batched(4, collation_fn=None))
    assert batches[1] == [("00005", True), ("00005", False), ("00006", False), ("00007", False)]


def test_a_sample_that_cannot_be_read_is_replaced(shards, tmp_path):
    urls = write_shards(tmp_path, (6, 6))
    data = bytearray((tmp_path / "part-000.tar").read_bytes())
    data[3 * 1024 + 2048 : 3 * 1024 + 2048 + 512] = bytes([255]) * 512  # a header of the third sample or so
    (tmp_path / "part-000.tar").write_bytes(data)
    dataset = wds.WebDataset(urls, index=True, failed="replace", handler=wds.ignore_and_continue)
    batches = list(dataset.batched(4, collation_fn=pairs))
    assert [len(batch) for batch in batches] == [4, 4, 4]
    flat = [pair for batch in batches for pair in batch]
    assert sum(pad for _, pad in flat) == 1 and len({number for number, pad in flat if not pad}) == 11


def test_nothing_to_replace_with_is_an_error(shards):
    with pytest.raises(StageError, match="no sample to replace sample"):
        list(dataset_of(shards, range(N)))


def test_a_batch_cannot_be_replaced(shards):
    dataset = dataset_of(shards).map(lambda batch: None if batch else batch)
    with pytest.raises(StageError, match="whole batch"):
        list(dataset)


@pytest.mark.parametrize(
    "add",
    [
        lambda dataset: dataset.shuffle(5, buffer=True),
        lambda dataset: dataset.batched(2).batched(2),
        lambda dataset: dataset.compose(iter),
        lambda dataset: dataset.slice(3),
    ],
)
def test_stages_that_hold_samples_are_refused(shards, add):
    with pytest.raises(SpecError, match="failed='replace'"):
        add(dataset_of(shards, batch=None))


def test_it_needs_an_index_and_a_known_word(shards):
    with pytest.raises(SpecError, match="failed='replace' needs an index"):
        wds.WebDataset(shards, index=False, failed="replace")
    with pytest.raises(SpecError, match="failed='skip'"):
        wds.WebDataset(shards, failed="skip")
