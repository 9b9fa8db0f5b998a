import pickle

import pytest

from tests.stages.contract import FakeSource, Run, assert_contract
from webdataset.errors import SpecError
from webdataset.flow import Pass
from webdataset.stages import detshuffle
from webdataset.world import World


def in_pipeline(stage, epoch, world=World()):
    return list(Run([FakeSource(range(50)), stage], Pass(seed=9, epoch=epoch, world=world)).items)


def test_run_counts_epochs():
    stage = detshuffle()
    assert stage.epoch == -1
    orders = []
    for epoch in range(3):
        orders.append(list(stage.run(iter(range(50)))))
        assert stage.epoch == epoch
    assert orders[0] != orders[1] != orders[2]
    assert [sorted(order) for order in orders] == [list(range(50))] * 3


def test_epoch_is_where_to_begin():
    stage = detshuffle(seed=2, epoch=3)
    order = list(stage.run(iter(range(50))))
    again = detshuffle(seed=2)
    for _ in range(4):
        list(again.run(iter(range(50))))
    assert list(detshuffle(seed=2, epoch=3)(range(50))) == order
    assert stage.epoch == 4


def test_D44_the_pipelines_epoch_counts_in_a_new_process():
    stage = detshuffle(seed=1)
    orders = [in_pipeline(stage, epoch) for epoch in range(3)]
    assert stage.epoch == 2
    assert in_pipeline(pickle.loads(pickle.dumps(detshuffle(seed=1))), 2) == orders[2]
    assert in_pipeline(pickle.loads(pickle.dumps(stage)), 1) == orders[1]
    assert len({tuple(order) for order in orders}) == 3


def test_pipeline_and_run_agree():
    stage = detshuffle(seed=1)
    alone = [list(stage.run(iter(range(50)))) for _ in range(2)]
    assert [in_pipeline(detshuffle(seed=1), epoch) for epoch in range(2)] == alone


def test_setting_epoch_by_hand_moves_the_next_pass():
    stage = detshuffle(seed=1)
    in_pipeline(stage, 0)
    stage.epoch = 6
    assert in_pipeline(stage, 1) == in_pipeline(detshuffle(seed=1), 7)
    assert stage.epoch == 7
    assert in_pipeline(stage, 2) == in_pipeline(detshuffle(seed=1), 8)


def test_does_not_depend_on_the_process():
    assert in_pipeline(detshuffle(), 0, World(worker=1, workers=3)) == in_pipeline(detshuffle(), 0)


def test_resumes_everywhere():
    stage = detshuffle(8, 4)
    # Every run of the contract is the same pass: the pipeline says so, whatever was counted before.
    assert sorted(assert_contract(range(30), stage)) == list(range(30))


@pytest.mark.parametrize("arguments", [dict(seed="1"), dict(bufsize=None), dict(epoch=0.5)])
def test_bad_arguments_fail_at_once(arguments):
    with pytest.raises(SpecError):
        detshuffle(**arguments)
