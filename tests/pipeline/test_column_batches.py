"""Batches by column against the functions of one sample and `batched`, which are the reference."""

import copy
import json
from collections import Counter
from itertools import count
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import webdataset as wds
from webdataset.codecs import decoders, numpy_dumps
from webdataset.errors import DecodingError
from webdataset.loader import _thread_choice
from webdataset.pipeline._column_batches import ColumnBatches
from webdataset.testing import assert_resumes_everywhere

ARRAYS = [
    np.arange(3.0),
    np.arange(3.0) + 7,
    np.arange(3, dtype=">i2"),
    np.arange(6, dtype="u1").reshape(2, 3),
    np.asfortranarray(np.arange(6, dtype="u1").reshape(2, 3)),
    np.array(5.0),
    np.zeros((0, 2)),
    np.array(["2020-01-01"], "M8[D]"),
]
NPY = [numpy_dumps(array) for array in ARRAYS] + [numpy_dumps(ARRAYS[0]) + b"more", numpy_dumps(ARRAYS[0])[:-1], b""]
VALUES = {
    "json": [b'{"a": 1}', b"[2]", b"3", b"4.5", b"null", b"NaN", b"123456789012345678901", b'"t"', b"{", b""],
    "npy": NPY,
    "cls": [b"1", b" 2\n", b"x", b"-3"],
    "txt": [b"text", "ä".encode(), b"\xff"],
    "xyz": [b"raw", b"\0"],
    "json.gz": [b"", wds.codecs.pack_gz(b"[1]")],
    "mp": [b"\x01", b"\xc1"],
}
# `only=` names fields that random samples may lack; as an error, the warning would be one more failure to handle.
pytestmark = pytest.mark.filterwarnings("ignore:decode.only=")

numbers = count()


@st.composite
def datasets(draw):
    """Samples most of which are alike, as those of real shards are."""
    fields = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3, unique=True))
    usual = {field: draw(st.sampled_from(VALUES[field])) for field in fields}
    samples = []
    for number in range(draw(st.integers(1, 14))):
        sample = {"__key__": f"{number:03}", **usual}
        for field in (
            draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=1)) if draw(st.integers(0, 3)) == 3 else ()
        ):
            odd = draw(st.sampled_from([None, *VALUES[field]]))
            kept = {name: value for name, value in sample.items() if name != field}
            sample = kept | ({"bin": b""} if odd is None else {field: odd})
        samples.append(sample)
    return samples


def stop(error):
    return False


handlers = st.sampled_from([wds.reraise_exception, wds.ignore_and_continue, stop])


@st.composite
def pipelines(draw):
    """Stages that may be run by column, and one of those that may come before them."""
    chosen = []
    if draw(st.booleans()):
        chosen.append(wds.shuffle(4))
    if draw(st.booleans()) and draw(st.booleans()):
        chosen.append(wds.map(dict))
    only = draw(st.sampled_from([None, None, ("json", "cls")]))
    if draw(st.integers(0, 3)):
        chosen.append(wds.decode(only=only, partial=draw(st.booleans()), handler=draw(handlers)))
    fields = draw(st.lists(st.sampled_from(["json", "npy", "cls;txt", "__key__", "xyz;npy"]), max_size=3))
    if fields:
        chosen.append(wds.to_tuple(*fields, missing_is_error=draw(st.booleans()), handler=draw(handlers)))
    chosen.append(wds.batched(draw(st.integers(1, 5)), partial=draw(st.booleans())))
    return chosen


def step_by_step():
    return mock.patch.object(ColumnBatches, "of", lambda *_: None)


def outcome(dataset):
    """The batches, the state after each, and how it ended."""
    batches, states = [], []
    try:
        for batch in dataset:
            batches.append(batch)
            states.append(dataset.state_dict())
    except Exception as error:
        return batches, states, (type(error), str(error))
    return batches, states, None


def exact(left, right):
    """Equal, and of one type, shape and layout in memory."""
    if isinstance(left, (tuple, list)):
        return type(left) is type(right) and len(left) == len(right) and all(map(exact, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and exact(list(left.values()), list(right.values()))
    if isinstance(left, np.ndarray):
        alike = (left.dtype, left.shape, left.flags.writeable) == (right.dtype, right.shape, right.flags.writeable)
        if left.dtype == object:
            return type(right) is np.ndarray and alike and exact(left.tolist(), right.tolist())
        return type(right) is np.ndarray and alike and left.tobytes() == right.tobytes()
    if isinstance(left, str):  # the address of a resumed shard knows where it was read
        return isinstance(right, str) and left == right
    return type(left) is type(right) and repr(left) == repr(right)  # NaN is not equal to itself


def write(samples, shards):
    urls = []
    for shard in range(shards):
        urls.append(f"memory://column-batches/{next(numbers)}.tar")
        with wds.TarWriter(urls[-1], encoder=False) as sink:
            for sample in samples[shard::shards]:
                sink.write(sample)
    return urls


def skipping(stage):
    """The same stage with a handler that goes on."""
    if not hasattr(stage, "handler"):
        return stage
    again = copy.copy(stage)
    object.__setattr__(again, "handler", wds.ignore_and_continue)
    return again


def rest(urls, options, stages, state):
    """What comes after a state, with handlers that skip what failed."""
    dataset = wds.DataPipeline(*wds.WebDataset(urls, **options).pipeline, *map(skipping, stages))
    dataset.load_state_dict(state | {"stages": dataset.state_dict()["stages"]})
    return outcome(dataset)


OPTIONS = [{"index": False, "shardshuffle": False}, {"order": "random"}, {}]


@settings(max_examples=100, deadline=None)
@given(datasets(), pipelines(), st.integers(1, 2), st.sampled_from(OPTIONS), st.data())
def test_the_same_batches_states_and_errors(samples, stages, shards, options, data):
    """Mutation: decode a field of the wrong name, or forget an item in flight."""
    urls = write(samples, min(shards, len(samples)))
    if options != OPTIONS[0]:
        wds.index_shards(urls)

    def build():
        return wds.WebDataset(urls, **options).compose(*stages)

    with step_by_step():
        reference = build()
        expected = outcome(reference)
    dataset = build()
    found = outcome(dataset)
    assert exact(found[0], expected[0])
    assert found[1] == expected[1]
    assert found[2] == expected[2]

    if found[2] is not None and "shape" not in found[2][1]:  # after the failure, too: nothing is lost
        with step_by_step():
            expected_rest = rest(urls, options, stages, reference.state_dict())
        assert exact(rest(urls, options, stages, dataset.state_dict())[0], expected_rest[0])
    if found[1]:
        state = found[1][data.draw(st.integers(0, len(found[1]) - 1))]
        resumed = build()
        resumed.load_state_dict(json.loads(json.dumps(state)))
        assert exact(outcome(resumed)[0], found[0][found[1].index(state) + 1 :])


@pytest.mark.parametrize("expensive", [0.0, 1.0], ids=["on threads", "in place"])
@settings(max_examples=25, deadline=None)
@given(datasets(), pipelines(), st.data())
def test_threads_hand_on_the_same(expensive, samples, stages, data):
    urls = write(samples, 1)

    def build():
        return wds.WebDataset(urls, index=False, shardshuffle=False).compose(*stages)

    def loader():
        return wds.WebLoader(build(), batch_size=None, workers="threads", num_workers=2, collate_fn=lambda item: item)

    with step_by_step():
        expected = outcome(build())
    with mock.patch.object(_thread_choice, "_EXPENSIVE", expensive):
        found = outcome(loader())
        assert exact(found[0], expected[0])
        assert found[2] == expected[2]
        stops = any(getattr(stage, "handler", None) is stop for stage in stages)
        if found[1] and not stops:  # where a handler ended the stream, a resumed one goes on after the failure
            number = data.draw(st.integers(0, len(found[1]) - 1))
            resumed = loader()
            resumed.load_state_dict(json.loads(json.dumps(found[1][number])))
            assert exact(outcome(resumed)[0], found[0][number + 1 :])


def test_a_field_that_is_named_twice_gives_two_arrays():
    urls = write([{"__key__": "0", "npy": numpy_dumps(np.zeros(3))}], 1)
    (batch,) = wds.WebDataset(urls, index=False, shardshuffle=False).decode().to_tuple("npy", "npy").batched(1)
    assert not np.shares_memory(*batch)


def regular(amount=23):
    sample = {"json": b'{"label": 7}', "npy": numpy_dumps(np.arange(4.0)), "cls": b"3"}
    return write([{"__key__": f"{number:03}", **sample} for number in range(amount)], 2)


@pytest.fixture
def made(monkeypatch):
    """Counts the batches made by column, and those that had to go step by step."""
    seen, make = Counter(), ColumnBatches._make

    def counted(self, samples):
        seen["tried"] += 1
        batch = make(self, samples)
        seen["made"] += 1
        return batch

    monkeypatch.setattr(ColumnBatches, "_make", counted)
    return seen


@pytest.mark.parametrize("options", OPTIONS)
def test_all_full_batches_of_a_regular_dataset_are_made_by_column(made, options):
    urls = regular()
    if options != OPTIONS[0]:
        wds.index_shards(urls)
    list(wds.WebDataset(urls, **options).shuffle(5).decode().to_tuple("json", "npy", "cls").batched(4))
    assert made == {"tried": 5, "made": 5}


def test_one_damaged_sample_costs_one_batch(made):
    samples = [{"__key__": f"{number:03}", "cls": b"x" if number == 9 else b"1"} for number in range(20)]
    dataset = wds.WebDataset(write(samples, 1), shardshuffle=False).decode(handler=wds.ignore_and_continue)
    assert [len(batch["cls"]) for batch in dataset.batched(4)] == [4, 4, 4, 4, 3]
    assert made == {"tried": 4, "made": 3}  # the samples after it make that batch full


@pytest.mark.parametrize(
    "stages",
    [
        [wds.decode("rgb8"), wds.batched(4)],
        [wds.decode(), wds.map(dict), wds.batched(4)],
        [wds.decode(), wds.batched(4, collation_fn=None)],
        [wds.decode(pre=[lambda key, data: None]), wds.batched(4)],
    ],
)
def test_functions_of_users_and_images_are_never_run_by_column(made, stages):
    list(wds.WebDataset(regular(), shardshuffle=False).compose(*stages))
    assert not made


def test_a_decoder_that_a_user_put_into_the_table_is_called_once_for_each_value(made, monkeypatch):
    called = Counter()
    monkeypatch.setitem(decoders, "cls", lambda data: called.update(["cls"]) or 1)
    list(wds.WebDataset(regular(), shardshuffle=False).decode().batched(4))
    assert called == {"cls": 23}
    assert not made["made"]


def test_every_stop_point_of_several_passes():
    urls = regular()
    assert_resumes_everywhere(lambda: wds.WebDataset(urls).shuffle(5).decode().to_tuple("npy", "__key__").batched(4))


def test_an_error_of_the_reader_comes_after_the_samples_before_it():
    samples = [{"__key__": f"{number:03}", "cls": b"x" if number == 6 else b"1"} for number in range(8)]

    def broken(urls):
        yield from wds.WebDataset(write(samples, 1), shardshuffle=False)
        raise OSError("the disk is gone")

    with pytest.raises(DecodingError, match="006"):
        list(wds.DataPipeline([0], broken, wds.decode(), wds.batched(16)))
    skips = wds.decode(handler=wds.ignore_and_continue)
    dataset = wds.DataPipeline([0], broken, skips, wds.batched(7), wds.map(lambda batch: len(batch["cls"])))
    seen = []
    with pytest.raises(OSError, match="disk"):
        seen.extend(dataset)
    assert seen == [7]


@pytest.mark.parametrize("at", range(1, 24, 3))
def test_ctrl_c_loses_nothing(at):
    urls = regular()

    class Interrupts:
        """Raises once while a batch is being collected."""

        left = at

        def __call__(self, sample):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return sample

    def build(function):
        dataset = wds.WebDataset(urls, shardshuffle=False, index=False).map(function).shuffle(3, initial=3)
        return dataset.decode().to_tuple("__key__").batched(4)

    whole = [batch[0] for batch in build(dict)]
    dataset, before = build(Interrupts()), []
    with pytest.raises(KeyboardInterrupt):
        for batch in dataset:
            before.append(batch[0])
    again = build(dict)
    again.load_state_dict(dataset.state_dict() | {"stages": again.state_dict()["stages"]})
    assert before + [batch[0] for batch in again] == whole
