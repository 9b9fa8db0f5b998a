import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webdataset import stages
from webdataset.errors import SpecError, StageError, StateError
from webdataset.flow import DROP, PerItem
from webdataset.pipeline import DataPipeline, PipelineStage
from webdataset.testing import assert_resumes_everywhere

from .numbers import Numbers


def triple(n):
    return 3 * n


def is_even(n):
    return n % 2 == 0


def drop_odd(n):
    return n if n % 2 == 0 else None


CHAINS = {
    "source": [],
    "map": [stages.map(triple)],
    "select": [stages.select(is_even)],
    "shuffle": [stages.shuffle(7, initial=3)],
    "shuffle, map": [stages.shuffle(7), stages.map(triple)],
    "map, shuffle": [stages.map(triple), stages.shuffle(7)],
    "select, shuffle": [stages.map(drop_odd), stages.shuffle(4)],
    "two shuffles": [stages.shuffle(5), stages.map(triple), stages.shuffle(3)],
    "batched": [stages.batched(4, collation_fn=None)],
    "shuffle, batched": [stages.shuffle(7), stages.map(triple), stages.batched(4, collation_fn=None)],
    "rebatched": [
        stages.batched(4, collation_fn=tuple),
        stages.map(list),
        stages.unlisted(),
        stages.shuffle(6),
        stages.batched(3, collation_fn=None),
    ],
    "shuffled batches": [stages.batched(3, collation_fn=None), stages.shuffle(3)],
    "slice": [stages.slice(2, 20, 3)],
    "generator": [lambda items: (n + 1 for n in items)],
    "generator, shuffle": [lambda items: (n + 1 for n in items), stages.shuffle(4)],
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_resumes_everywhere(chain):
    items = assert_resumes_everywhere(lambda: DataPipeline(Numbers(23), *chain))
    assert items


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_resumes_everywhere_over_several_passes(chain):
    assert_resumes_everywhere(lambda: DataPipeline(Numbers(11), *chain).repeat(3))


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_resumes_in_the_middle_of_an_epoch_that_continues(chain):
    assert_resumes_everywhere(lambda: DataPipeline(Numbers(11), *chain).with_epoch(9))


LINKS = st.sampled_from(
    [
        stages.map(triple),
        stages.select(is_even),
        stages.shuffle(1),
        stages.shuffle(5, initial=2),
        stages.shuffle(50),
    ]
)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(0, 40), chain=st.lists(LINKS, max_size=4), size=st.integers(1, 6), passes=st.integers(1, 3))
def test_any_chain_resumes_everywhere(n, chain, size, passes):
    def make():
        return DataPipeline(Numbers(n), *chain, stages.batched(size, collation_fn=None)).repeat(passes)

    assert_resumes_everywhere(make)


def test_a_shuffle_saves_origins_and_not_payloads():
    dataset = DataPipeline(Numbers(100), stages.map(lambda n: b"x" * 10_000), stages.shuffle(50))
    next(iter(dataset))
    assert len(json.dumps(dataset.state_dict())) < 4_000
    dataset.close()


def test_neighbours_are_fused_into_one_loop():
    """Between two per-item stages there is no generator: the second sees the item in the same frame of the loop."""
    depth = []

    class Look(PerItem):
        def function(self, during):
            def look(item):
                import sys

                frame, names = sys._getframe(), []
                while frame:
                    names.append(frame.f_code.co_name)
                    frame = frame.f_back
                depth.append(names.count("_apply"))
                return item

            return look

    list(DataPipeline(Numbers(1), Look(), Look(), Look()))
    assert depth == [1, 1, 1]


def test_drop_ends_the_way_of_an_item():
    class Never(PerItem):
        def function(self, during):
            def fail(item):
                raise AssertionError(item)

            return fail

    class DropAll(PerItem):
        def function(self, during):
            return lambda item: DROP

    assert list(DataPipeline(Numbers(3), DropAll(), Never())) == []


def test_a_recalled_sample_that_is_now_dropped_is_an_error():
    kept = {"everything": True}
    make = lambda: DataPipeline(Numbers(9), stages.select(lambda n: kept["everything"]), stages.shuffle(5, initial=5))
    dataset = make()
    next(iter(dataset))
    state = dataset.state_dict()
    dataset.close()
    kept["everything"] = False
    again = make()
    again.load_state_dict(state)
    with pytest.raises(StateError, match="was kept before and is dropped now"):
        next(iter(again))


def test_every_stage_of_a_class_is_run_without_upstream_in_first_place():
    class Count(PipelineStage):
        def run(self, src=None):
            return iter(range(3) if src is None else (n + 1 for n in src))

    assert list(DataPipeline(Count(), Count())) == [1, 2, 3]


@pytest.mark.parametrize("stage", [3, "text", object(), {"a": 1}])
def test_what_cannot_run_is_refused_where_it_is_written(stage):
    with pytest.raises(SpecError, match="not a valid pipeline stage"):
        DataPipeline([1], stage)


@pytest.mark.parametrize("returned", [None, 3])
@pytest.mark.parametrize("first", [True, False])
def test_a_stage_that_returns_no_iterator_is_an_error_that_names_it(returned, first):
    def forgets_to_yield(*items):
        return returned

    class Forgets(PipelineStage):
        def run(self, *items):
            return returned

    for stage in (forgets_to_yield, Forgets()):
        before = [] if first else [[1, 2]]
        with pytest.raises(StageError, match=r"[Ff]orgets.* returned .*yield"):
            list(DataPipeline(*before, stage))


def test_a_checkpoint_of_another_pipeline_is_refused_with_what_differs():
    saved = DataPipeline(Numbers(3), stages.shuffle(5)).state_dict()
    with pytest.raises(StateError, match=r"stage 1 of the checkpoint is [Ss]huffle.*5.*, here it is .*7"):
        DataPipeline(Numbers(3), stages.shuffle(7)).load_state_dict(saved)
    with pytest.raises(StateError, match="2 stages, this pipeline has 1"):
        DataPipeline(Numbers(3)).load_state_dict(saved)
    other = DataPipeline(Numbers(3), stages.shuffle(5))
    other.seed = 9
    with pytest.raises(StateError, match="seed 0, this pipeline has 9"):
        other.load_state_dict(saved)


def test_a_replay_that_was_loaded_can_be_saved_before_its_first_item():
    stopped = DataPipeline([1, 2, 3], stages.map(str))
    next(iter(stopped))
    for _ in range(2):
        again = DataPipeline([1, 2, 3], stages.map(str))
        again.load_state_dict(stopped.state_dict())
        items, stopped = iter(again), again
    assert list(items) == ["2", "3"]
