"""A state that is saved after an exception goes on with the sample that failed: nothing is lost, nothing comes twice."""

import gc
import weakref

import pytest
from tests.pipeline.indexed import write_shards

import webdataset as wds
from webdataset.flow import Pass, Progress

BATCH, BAD = 8, 13


class Fragile:
    """A function of a sample, or of a batch, that fails on one of them until it is repaired."""

    def __init__(self, error):
        self.error, self.broken = error, True

    def __call__(self, item):
        if self.broken and BAD in (item if isinstance(item, list) else [item]):
            raise self.error("broken")  # a new one each time: an error holds on to the frames it came through
        return item


def number(sample):
    return int(sample["__key__"])


def pipeline(urls, where, fragile, **options):
    dataset = wds.WebDataset(urls, **options).map(number)
    if where == "sample":
        return dataset.map(fragile)
    if where == "filtered":
        return dataset.select(lambda n: n % 3).map(fragile).batched(BATCH, collation_fn=None)
    if where == "in a batch":
        return dataset.map(fragile).batched(BATCH, collation_fn=None)
    if where == "collation":
        return dataset.batched(BATCH, collation_fn=fragile)
    return dataset.batched(BATCH, collation_fn=None).map(fragile)


def flat(items):
    return [each for item in items for each in (item if isinstance(item, list) else [item])]


def until_failure(items, error):
    got = []
    with pytest.raises(error):
        for item in items:
            got.append(item)
    return got


WHERE = ["sample", "filtered", "in a batch", "collation", "behind a batch"]
OPTIONS = [{}, {"order": "random"}, {"index": False, "shardshuffle": False}]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("options", OPTIONS, ids=["indexed", "random", "stream"])
@pytest.mark.parametrize("where", WHERE)
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path, where, options, error):
    """Mutation: without noting the failed item, it and the batch around it are lost."""
    urls = write_shards(tmp_path, [20, 1, 19])
    fragile = Fragile(error)
    fragile.broken = False
    whole = flat(pipeline(urls, where, fragile, **options))

    fragile.broken = True
    dataset = pipeline(urls, where, fragile, **options)
    before = flat(until_failure(dataset, error))
    saved = dataset.state_dict()
    again = pipeline(urls, where, fragile, **options)
    again.load_state_dict(saved)
    assert flat(until_failure(again, error)) == []  # still broken: the same sample
    once_more = again.state_dict()

    fragile.broken = False
    for state in (saved, once_more):
        last = pipeline(urls, where, fragile, **options)
        last.load_state_dict(state)
        assert before + flat(last) == whole


def test_a_sample_that_stays_broken_is_skipped_by_a_handler(tmp_path):
    urls = write_shards(tmp_path, [20, 1, 19])
    fragile = Fragile(ValueError)
    dataset = wds.WebDataset(urls).map(number).map(fragile, handler=wds.reraise_exception)
    before = until_failure(dataset, fragile.error)
    again = wds.WebDataset(urls).map(number).map(fragile, handler=wds.ignore_and_continue)
    state = dataset.state_dict()
    state["stages"] = again.state_dict()["stages"]
    again.load_state_dict(state)
    assert before + list(again) == [n for n in range(40) if n != BAD]


@pytest.mark.parametrize("mix", [False, True])
def test_a_failed_iteration_goes_with_its_error_and_waits_for_no_garbage_collection(tmp_path, mix):
    urls, fragile = write_shards(tmp_path, [20, 1, 19]), Fragile(ValueError)
    dataset = wds.WebDataset(urls).map(number)
    dataset = mixed(fragile, dataset) if mix else dataset.map(fragile)
    gone = weakref.ref(dataset)
    gc.disable()
    try:
        until_failure(dataset, ValueError)
        del dataset
        assert gone() is None
    finally:
        gc.enable()


def mixed(fragile, *parts):
    return wds.mix([(part, 1) for part in parts]).map(fragile)


def test_a_function_behind_a_mix_gets_its_item_again(tmp_path):
    urls, fragile = write_shards(tmp_path, [20, 1, 19]), Fragile(ValueError)
    make = lambda: mixed(fragile, wds.WebDataset(urls).map(number), wds.WebDataset(urls).map(number).shuffle(7))
    dataset = make()
    before = until_failure(dataset, ValueError)
    again = make()
    again.load_state_dict(dataset.state_dict())
    fragile.broken = False
    assert before + list(again) == list(make())


@pytest.mark.parametrize("workers", [(0, "threads"), (2, "threads"), (0, "processes")], ids=str)
def test_a_function_behind_a_loader_gets_its_item_again(tmp_path, workers):
    urls = write_shards(tmp_path, [20, 1, 19])

    def make(function):
        dataset = wds.WebDataset(urls).map(number)
        settings = {"collate_fn": list_of} if workers[1] == "processes" else {}
        return wds.WebLoader(dataset, batch_size=None, num_workers=workers[0], workers=workers[1], **settings).map(
            function
        )

    fragile = Fragile(ValueError)
    loader = make(fragile)
    before = until_failure(loader, ValueError)
    again = make(fragile)
    again.load_state_dict(loader.state_dict())
    assert until_failure(again, ValueError) == []
    state, fragile.broken = again.state_dict(), False
    last = make(fragile)
    last.load_state_dict(state)
    assert before + list(last) == list(range(40))


def list_of(item):
    return item


def test_an_item_that_cannot_be_read_again_by_its_origin_is_not_lost():
    """The items of lists have no origin; then the pass is read again from its beginning."""
    fragile = Fragile(ValueError)
    dataset = mixed(fragile, range(40), range(40))
    got = until_failure(dataset, ValueError)
    fragile.broken = False
    again = mixed(fragile, range(40), range(40))
    again.load_state_dict(dataset.state_dict())
    assert got + list(again) == list(mixed(fragile, range(40), range(40)))


def test_a_loader_counts_on_from_the_last_state_that_could_be_saved():
    fragile = Fragile(ValueError)
    fragile.broken = False
    whole = list(mixed(fragile, range(40), range(40)))
    for stop in (0, 1, 30):
        loader, again = (
            wds.WebLoader(mixed(fragile, range(40), range(40)), batch_size=None, num_workers=2, workers="threads")
            for _ in range(2)
        )
        items = iter(loader)
        got = [next(items) for _ in range(stop)]
        again.load_state_dict(loader.state_dict())
        items.close()
        assert got + list(again) == whole


class Interrupting(list):
    """Where a batch collects: Ctrl-C comes right behind `append`, before the origin is noted."""

    def append(self, item):
        super().append(item)
        if item == BAD:
            raise KeyboardInterrupt


def test_ctrl_c_between_an_item_and_its_origin_loses_neither():
    batched = wds.batched(BATCH, collation_fn=None)
    at = batched.start(Pass())
    at.upstream, at.items = _Counting(), Interrupting()
    with pytest.raises(KeyboardInterrupt):
        list(batched.run(at.upstream.count(), at))
    assert at.origins == list(range(BATCH, BAD + 1))


class _Counting(Progress):
    """Numbers that are their own origins."""

    last = None

    @property
    def origin(self):
        return self.last

    def count(self):
        for self.last in range(BATCH, 40):
            yield self.last
