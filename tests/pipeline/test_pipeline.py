import copy
import pickle

import pytest
import torch.utils.data
from torch.utils.data import DataLoader

from webdataset import stages, world
from webdataset.errors import SpecError, StateError
from webdataset.pipeline import DataPipeline, FluidWrapper, MockDataset, PipelineStage, with_epoch, with_length
from webdataset.world import World

from .numbers import Numbers


def test_none_is_left_out_and_a_list_of_stages_is_flattened():
    plus = lambda items: (n + 1 for n in items)
    assert list(DataPipeline([1, 2], None, [plus, None, plus])) == [3, 4]


class OfTorch(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([1, 2])


class AsStage(PipelineStage):
    def run(self):
        return iter([1, 2])


@pytest.mark.parametrize(
    "source", [OfTorch(), AsStage(), DataPipeline([1, 2]), Numbers(2), DataLoader([0, 1], batch_size=None), [0, 1].copy]
)
def test_a_list_of_stages_may_come_first(source):
    plus = lambda items: (n + 1 for n in items)
    assert list(DataPipeline([None, source, plus])) == list(DataPipeline(source, plus))
    assert list(DataPipeline([{"a": 1}, (2, 3), None, "x"])) == [{"a": 1}, (2, 3), None, "x"]  # data


def test_keywords_that_do_nothing_are_named():
    with pytest.warns(UserWarning, match="ignores length"):
        DataPipeline([1], length=3)


def test_an_empty_pipeline_says_so():
    with pytest.raises(SpecError, match="no stages"):
        list(DataPipeline())


def test_compose_leaves_the_original_alone_and_shares_no_counter():
    first = DataPipeline([1, 2])
    second = first.compose(stages.map(str))
    assert list(first) == [1, 2] and list(second) == ["1", "2"]
    assert len(first.pipeline) == 1
    assert first._epochs.peek() == 1 and second._epochs.peek() == 1


def test_stages_may_be_changed_in_place():
    dataset = DataPipeline([1, 2], stages.map(str), stages.map(len))
    del dataset.pipeline[1:]
    assert list(dataset) == [1, 2]


def test_repeat_stops_on_empty_data():
    assert list(DataPipeline([]).repeat()) == []


def test_D43_with_epoch_repeat_and_with_length_copy():
    dataset = DataPipeline([1, 2, 3])
    assert dataset.with_epoch(2) is not dataset and dataset.repeat(2) is not dataset
    assert dataset.with_length(5) is not dataset
    assert list(dataset) == [1, 2, 3]
    with pytest.raises(TypeError):
        len(dataset)


@pytest.mark.parametrize("size", [0, -1, -5])
def test_D43_an_epoch_of_nothing_is_an_error(size):
    with pytest.raises(SpecError, match="at least 1 item"):
        DataPipeline([1]).with_epoch(size)


def test_D43_repeat_keeps_its_cap_for_one_epoch_too():
    assert list(DataPipeline([1, 2, 3]).repeat(1, nbatches=2)) == [1, 2]
    assert list(DataPipeline([1, 2, 3]).repeat(2, nbatches=4)) == [1, 2, 3, 1]


def test_epochs_continue_the_stream_also_after_a_break():
    dataset = DataPipeline(range(5)).with_epoch(3)
    assert list(dataset) == [0, 1, 2]
    for item in dataset:
        assert item == 3
        break
    assert list(dataset) == [4, 0, 1]
    assert list(dataset.with_epoch(2, restart=True)) == [0, 1]


def test_epochs_restart_on_request():
    dataset = DataPipeline(range(5)).with_epoch(3, restart=True)
    assert [list(dataset), list(dataset)] == [[0, 1, 2], [0, 1, 2]]


def test_D22_a_length_survives_pickling_and_compose():
    dataset = pickle.loads(pickle.dumps(DataPipeline([1, 2]).with_length(7)))
    assert len(dataset) == 7 and len(dataset.compose(stages.map(str))) == 7
    assert type(dataset) is DataPipeline


def test_without_a_length_len_is_a_type_error_and_the_dataset_is_still_true():
    with pytest.raises(TypeError, match="with_length"):
        len(DataPipeline([1]))
    assert DataPipeline([1])
    assert list(DataPipeline([1])) == [1]


@pytest.mark.parametrize("n", [-1, 2.5, "3", True])
def test_a_length_is_a_whole_number(n):
    with pytest.raises(SpecError):
        DataPipeline([1]).with_length(n)


def test_D23_datasets_around_datasets():
    assert list(MockDataset({"a": 1}, 2)) == [{"a": 1}] * 2
    epochs = with_epoch(range(5), 2)
    assert [list(epochs), list(epochs), len(epochs)] == [[0, 1], [2, 3], 2]
    assert len(with_length(range(5), 9)) == 9


def test_a_new_order_each_epoch_and_the_same_one_when_run_again():
    make = lambda: DataPipeline(Numbers(30), stages.shuffle(30, initial=30))
    dataset = make()
    first, second = list(dataset), list(dataset)
    assert first != second and sorted(first) == sorted(second) == list(range(30))
    again = make()
    assert [list(again), list(again)] == [first, second]
    again.set_epoch(1)
    assert list(again) == second


@pytest.mark.parametrize("epoch", [-1, 1.5, "2", True])
def test_an_epoch_is_a_whole_number(epoch):
    with pytest.raises(SpecError, match="expected an integer"):
        DataPipeline([1]).set_epoch(epoch)


def test_a_checkpoint_after_the_last_item_is_the_beginning_of_the_next_pass():
    make = lambda: DataPipeline(Numbers(6), stages.shuffle(6))
    dataset = make()
    list(dataset)
    saved, expected = dataset.state_dict(), list(dataset)
    again = make()
    again.load_state_dict(saved)
    assert list(again) == expected


def test_passes_are_counted_on_after_a_resume():
    make = lambda: DataPipeline(Numbers(6), stages.shuffle(6))
    dataset = make()
    list(dataset)
    items = iter(dataset)
    head = [next(items), next(items)]
    saved = dataset.state_dict()
    rest, third = list(items), list(dataset)
    again = make()
    again.load_state_dict(saved)
    assert list(again) == rest and list(again) == third and head


def test_a_stream_without_an_index_resumes_on_the_same_topology_only():
    saved = {}
    with world.pretend(World(rank=0, ranks=2)):
        dataset = DataPipeline(Numbers(6))
        next(iter(dataset))
        saved = dataset.state_dict()
        dataset.close()
    again = DataPipeline(Numbers(6))
    again.load_state_dict(saved)
    with pytest.raises(StateError, match="saved with ranks=2, workers=1; now ranks=1, workers=1"):
        iter(again)


def test_a_copy_and_a_pickle_start_afresh():
    dataset = DataPipeline(Numbers(4)).with_epoch(3)
    next(iter(dataset))
    assert list(copy.deepcopy(dataset)) == [0, 1, 2]
    assert list(pickle.loads(pickle.dumps(dataset))) == [0, 1, 2]
    dataset.close()


def test_close_closes_the_stages_and_the_iteration():
    closed = []

    class Stage:
        def __call__(self, items):
            try:
                yield from items
            finally:
                closed.append("iteration")

        def close(self):
            closed.append("stage")

    dataset = DataPipeline([1, 2], Stage())
    next(iter(dataset))
    dataset.close()
    dataset.close()
    assert closed[:2] == ["iteration", "stage"]


def test_break_lets_go_at_once():
    closed = []

    def source():
        try:
            yield from range(9)
        finally:
            closed.append(True)

    for _ in DataPipeline(source, stages.map(str)):
        break
    assert closed == [True]


def test_a_fluid_wrapper_has_all_methods():
    assert list(FluidWrapper(range(4)).select(lambda n: n % 2).map(str).listed(5)) == [["1", "3"]]
    assert list(FluidWrapper([1]).pipe(list).then(list)) == [1]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_an_epoch_that_failed_does_not_empty_those_after_it(failure):
    failures = [failure("once")]

    def fails_once(number):
        if number == 1 and failures:
            raise failures.pop()
        return number

    dataset = DataPipeline([0, 1, 2], stages.map(fails_once)).with_epoch(2)
    with pytest.raises(failure, match="once"):
        list(dataset)
    assert [list(dataset) for _ in range(2)] == [[0, 1], [2, 0]]


def test_a_loaded_pipeline_cannot_be_made_longer():
    dataset = DataPipeline(Numbers(5))
    next(iter(dataset))
    again = DataPipeline(Numbers(5))
    again.load_state_dict(dataset.state_dict())
    with pytest.raises(StateError, match="add the stages first"):
        again.compose(stages.map(str))
    assert list(again) == [1, 2, 3, 4]
    assert list(again.compose(stages.map(str))) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("state", [None, [], {}, {"version": 1}, {"version": 2, "seed": 0, "stages": [], "at": None}])
def test_what_is_no_state_is_refused(state):
    with pytest.raises(StateError, match="what state_dict returned"):
        DataPipeline([1]).load_state_dict(state)


@pytest.mark.parametrize("wrong", ["3", None, 2.5])
def test_counts_that_are_none_are_refused_where_they_are_written(wrong):
    for method in ("with_epoch", "repeat", "shuffle"):
        with pytest.raises(SpecError, match="expected an integer"):
            getattr(FluidWrapper([1]), method)(wrong)


def test_counts_may_be_whole_floats():
    assert list(DataPipeline([0, 1]).with_epoch(3e0)) == [0, 1, 0]


@pytest.mark.parametrize("passes", [0, 1])
def test_a_state_between_two_epochs_knows_what_set_epoch_said(passes):
    def make():
        return DataPipeline(Numbers(20), stages.shuffle(10))

    dataset = make()
    for _ in range(passes):
        list(dataset)
    dataset.set_epoch(5)
    again = make()
    again.load_state_dict(dataset.state_dict())
    assert list(again) == list(dataset) != list(make())
