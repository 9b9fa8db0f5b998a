import gc
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webdataset
import webdataset as wds
from webdataset.pipeline import Cursor
from webdataset.errors import SpecError, StateError
from webdataset.loader import WebLoader
from webdataset.pipeline import DataPipeline
from webdataset.world import World, current, pretend

from .sources import numbers, threads


def uneven(number):
    """Later items are often ready before earlier ones."""
    time.sleep(0.002 if number % 7 == 0 else 0)
    return number


def pipelines(n=50):
    yield "map", numbers(n).map(uneven)
    yield "drop", numbers(n).map(uneven).select(lambda x: x % 3).map(lambda x: x + 1)
    yield "shuffle", numbers(n).map(uneven).shuffle(10).map(uneven).batched(4, collation_fn=None)
    yield "opaque", numbers(n).map(uneven).pipe(lambda src: (x * 2 for x in src)).batched(3, collation_fn=None)
    yield "no functions", numbers(n).batched(7, collation_fn=None)


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize(("name", "dataset"), list(pipelines()))
def test_output_is_the_same_for_every_number_of_threads(n, name, dataset):
    dataset.set_epoch(3)
    expected = list(dataset)
    dataset.set_epoch(3)
    assert list(threads(dataset, n)) == expected
    dataset.set_epoch(3)
    assert list(threads(dataset, 0)) == expected


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([name for name, _ in pipelines()]),
    st.sampled_from([0, 1, 2, 4]),
    st.sampled_from([0, 1, 3]),
    st.integers(0, 40),
    st.integers(0, 60),
)
def test_resume_is_exact_at_every_item_with_any_threads(name, before, after, stop, n):
    def loader(count):
        return threads(dict(pipelines(n))[name], count)

    expected = list(loader(0))
    first = loader(before)
    items = iter(first)
    head = list(islice(items, min(stop, len(expected))))
    saved = json.loads(json.dumps(first.state_dict()))
    items.close()
    second = loader(after)
    second.load_state_dict(saved)
    assert head + list(second) == expected


def test_every_state_of_a_pass_resumes(monkeypatch):
    monkeypatch.setattr("webdataset.loader._item_state._PAUSE", 0)  # a state beside every item
    dataset = numbers(40).map(uneven).shuffle(10).map(uneven).batched(3, collation_fn=None)
    loader = threads(dataset, 3)
    states, items = [loader.state_dict()], []
    for item in loader:
        items.append(item)
        states.append(json.loads(json.dumps(loader.state_dict())))
    assert any(progress for state in states[1:] for progress in state["at"]["stages"][0]["$cursor"]["stages"][1:2])
    for number, state in enumerate(states):
        dataset.set_epoch(0)
        again = threads(dataset, 2)
        again.load_state_dict(state)
        assert list(again) == items[number:]


def test_a_state_is_asked_for_now_and_then_and_counted_from(monkeypatch):
    monkeypatch.setattr("webdataset.loader._item_state._PAUSE", 1e9)  # only once
    loader = threads(numbers(40).shuffle(10), 2)
    items = iter(loader)
    head = list(islice(items, 25))
    saved = loader.state_dict()
    items.close()
    assert saved["at"]["stages"][0]["$cursor"]["skip"] == 24
    again = threads(numbers(40).shuffle(10), 2)
    again.load_state_dict(saved)
    assert sorted(head + list(again)) == list(range(40))


def test_a_checkpoint_with_threads_goes_on_without_a_loader():
    loader = threads(numbers(30).map(uneven), 3)
    items = iter(loader)
    head = [next(items) for _ in range(5)]
    cursor = Cursor.from_json(loader.state_dict()["at"]["stages"][0]["$cursor"])
    items.close()
    assert head + list(numbers(30).map(uneven).run(cursor).epoch()) == list(range(30))


def test_after_the_last_item_comes_the_next_epoch():
    loader = threads(numbers(5, by_epoch=True), 2)
    assert list(loader) == [0, 1, 2, 3, 4]
    again = threads(numbers(5, by_epoch=True), 2)
    again.load_state_dict(loader.state_dict())
    assert list(again) == [1000, 1001, 1002, 1003, 1004]


def test_epochs_of_a_dataset_go_on(n=2):
    dataset = numbers(5, by_epoch=True).map(uneven).with_epoch(3)
    loader = threads(dataset, n)
    assert [list(loader) for _ in range(3)] == [[0, 1, 2], [3, 4, 1000], [1001, 1002, 1003]]
    dataset.close()


@pytest.mark.parametrize("n", [0, 1, 3])
def test_an_epoch_left_early_loses_nothing(n):
    dataset = numbers(100).map(uneven).with_epoch(10)
    loader = threads(dataset, n)
    for item in loader:
        if item == 4:
            break
    assert list(loader) == list(range(5, 15))
    assert list(loader) == list(range(15, 25))
    dataset.close()


@pytest.mark.parametrize("n", [0, 1, 3])
def test_epochs_of_a_loader_go_on(n):
    loader = threads(numbers(7).map(uneven), n).with_epoch(5)
    assert [list(loader) for _ in range(2)] == [[0, 1, 2, 3, 4], [5, 6, 0, 1, 2]]
    loader.close()


@pytest.mark.parametrize("n", [0, 1, 3])
def test_an_error_comes_in_its_turn_with_its_traceback(n):
    def fails_at_ten(number):
        if number == 10:
            raise KeyError("ten")
        return number

    seen = []
    with pytest.raises(KeyError, match="ten") as caught:
        seen.extend(iter_into(seen, threads(numbers(50).map(fails_at_ten), n)))
    assert seen == list(range(10))
    assert "fails_at_ten" in "".join(traceback.format_tb(caught.tb))


def iter_into(seen, items):
    for item in items:
        seen.append(item)
    return []


@pytest.mark.parametrize("n", [0, 1, 3])
def test_an_error_of_the_source_comes_after_what_it_brought(n):
    def source():
        yield from range(10)
        raise OSError("disk")

    seen = []
    with pytest.raises(OSError, match="disk"):
        iter_into(seen, threads(DataPipeline(source, wds.map(uneven)), n))
    assert seen == list(range(10))


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize(
    ("handler", "expected"),
    [(wds.ignore_and_continue, [0, 1, 2, 4, 5, 6, 8, 9]), (wds.ignore_and_stop, [0, 1, 2])],
)
def test_handlers_decide_as_they_do_without_threads(n, handler, expected):
    def refuses(number):
        if number in (3, 7):
            raise ValueError(number)
        return number

    assert list(threads(numbers(10).map(refuses, handler=handler), n)) == expected


@pytest.mark.parametrize("stop", [0, 1, 17])
def test_nothing_is_left_after_break(stop):
    before = set(threading.enumerate())
    for number, _ in enumerate(threads(numbers(10_000).map(uneven).batched(2, collation_fn=None), 3)):
        if number == stop:
            break
    assert set(threading.enumerate()) == before


def test_nothing_is_left_when_the_iterator_is_forgotten():
    before = set(threading.enumerate())
    items = iter(threads(numbers(10_000).map(uneven), 3))
    next(items)
    del items
    assert set(threading.enumerate()) == before


def test_threads_see_the_world_of_the_one_who_asked():
    with pretend(World(rank=2, ranks=3)):
        assert list(threads(numbers(6).map(lambda _: current().rank), 2)) == [2, 2]


@pytest.mark.parametrize("n", [0, 2])
def test_batches_of_arrays_without_torch(n):
    dataset = numbers(5).map(lambda i: {"x": np.full(3, i), "y": i})
    batches = list(threads(dataset, n, batch_size=2))
    assert [batch["x"].shape for batch in batches] == [(2, 3), (2, 3), (1, 3)]
    assert [batch["y"].tolist() for batch in batches] == [[0, 1], [2, 3], [4]]
    assert len(list(threads(dataset, n, batch_size=2, drop_last=True))) == 2
    assert list(threads(dataset, n, batch_size=4, collate_fn=len)) == [4, 1]


def test_batches_made_by_the_loader_resume():
    dataset = numbers(20)
    loader = threads(dataset, 2, batch_size=3, collate_fn=tuple)
    items = iter(loader)
    head = [next(items) for _ in range(2)]
    saved = loader.state_dict()
    items.close()
    again = threads(numbers(20), 0, batch_size=3, collate_fn=tuple)
    again.load_state_dict(saved)
    assert sum(head + list(again), ()) == tuple(range(20))


def test_pinning_without_a_device_changes_nothing():
    (batch,) = threads(numbers(4).map(lambda i: {"x": i}), 1, batch_size=4, pin_memory=True)
    assert isinstance(batch["x"], np.ndarray)


def test_length_is_declared_by_the_dataset():
    assert len(threads(numbers(10).with_length(10), 1)) == 10
    assert len(threads(numbers(10).with_length(10), 1, batch_size=4)) == 3
    assert len(threads(numbers(10).with_length(10), 1, batch_size=4, drop_last=True)) == 2
    with pytest.raises(TypeError):
        len(threads(numbers(10), 1))


def test_a_checkpoint_of_another_dataset_is_refused():
    saved = threads(numbers(20).map(abs), 2).state_dict()
    with pytest.raises(StateError, match="stage 1 of the checkpoint is"):
        threads(numbers(20).map(str), 2).load_state_dict(saved)
    with pytest.raises(StateError, match="stage 0 of the checkpoint"):
        threads([1, 2], 2).load_state_dict(saved)


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_workers": -1},
        {"num_workers": 1.5},
        {"num_workers": True},
        {"batch_size": 0},
        {"batch_size": "4"},
        {"prefetch_factor": -2},
        {"persistent_workers": True},
        {"shuffle": True},
        {"memory": 0},
    ],
)
def test_wrong_settings_are_refused_at_construction(wrong):
    with pytest.raises(SpecError):
        WebLoader(numbers(3), workers="threads", **wrong)


def test_unknown_kind_of_workers():
    with pytest.raises(SpecError, match="workers="):
        WebLoader(numbers(3), workers="fibres")


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import webdataset as wds
dataset = wds.DataPipeline([{"x": 1}, {"x": 2}, {"x": 3}])
print([batch["x"].tolist() for batch in wds.WebLoader(dataset, batch_size=2)])
print([batch["x"].tolist() for batch in wds.WebLoader(dataset, batch_size=2, num_workers=2, workers="threads")])
print(list(wds.WebLoader(dataset, batch_size=None)))
try:
    wds.WebLoader(dataset, num_workers=2)
except wds.MissingDependency as error:
    print(error)
assert "torch.utils" not in sys.modules
"""


def test_everything_but_processes_works_without_torch():
    source = str(Path(webdataset.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": source}
    )
    assert done.stdout.splitlines() == [
        "[[1, 2], [3]]",
        "[[1, 2], [3]]",
        "[{'x': 1}, {'x': 2}, {'x': 3}]",
        "the package 'torch' is needed to start worker processes – pip install 'webdataset[torch]'",
    ], done.stderr


def test_garbage_collected_in_a_thread_of_a_loader_does_not_wait_for_itself():
    """A forgotten iterator in a cycle is found by whichever thread collects the garbage."""
    forgotten = iter(threads(numbers(10_000).map(uneven), 2))
    next(forgotten)
    cycle = [forgotten]
    cycle.append(cycle)
    del forgotten, cycle
    before = [thread for thread in threading.enumerate() if thread.name.startswith("webdataset-")]

    def collect(number):
        gc.collect()
        return number

    assert list(threads(numbers(5).map(collect), 1)) == list(range(5))
    for thread in before:
        thread.join(20)
        assert not thread.is_alive()
