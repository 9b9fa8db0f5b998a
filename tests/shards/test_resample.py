import collections
import logging
import pickle

import pytest

from webdataset.errors import SpecError
from webdataset.flow import Pass
from webdataset.shards import NonEmpty, Resampled, ResampledShardList, ResampledShards, non_empty, resampled
from webdataset.world import World, pretend


def urls(items):
    return [item["url"] for item in items]


def run(stage, during, items=()):
    return stage.run(iter(items), stage.start(during))


def test_reproducible_new_in_each_pass_and_each_worker():
    make = lambda: ResampledShards("{0..9}", nshards=20, deterministic=True, seed=5)
    source = make()
    first, second = urls(source), urls(source)
    assert first != second and source.epoch == 1
    assert first == urls(make())
    seen = {tuple(urls(run(make(), Pass(world=World(r, 2, w, 2))))) for r in (0, 1) for w in (0, 1)}
    assert len(seen) == 4


def test_D11_the_seed_decides():
    assert urls(ResampledShards("{0..9}", nshards=20, deterministic=True, seed=5)) != urls(
        ResampledShards("{0..9}", nshards=20, deterministic=True, seed=6)
    )
    source = ResampledShards("{0..9}", nshards=20, deterministic=True)
    assert urls(run(source, Pass(seed=1))) != urls(run(source, Pass(seed=2)))


def test_unrepeatable_unless_deterministic_but_resumable():
    source = ResampledShards("{0..99}", nshards=30)
    at = source.start(Pass())
    stream = source.run(iter(()), at)
    states, items = [at.save()], []
    for item in stream:
        items.append(item["url"])
        states.append(at.save())
    assert items != urls(source.run(iter(()), source.start(Pass())))
    for number, state in enumerate(states):
        again = source.start(Pass())
        again.load(state, None)
        assert urls(source.run(iter(()), again)) == items[number:]


def test_resuming_far_away_costs_nothing():
    source = ResampledShards("{0..9}", deterministic=True)
    at = source.start(Pass())
    at.load({**at.save(), "taken": 10**15}, None)
    assert next(source.run(iter(()), at))["url"] in "0123456789"


def test_draws_are_uniform():
    counts = collections.Counter(urls(ResampledShards("{0..9}", nshards=20_000, deterministic=True)))
    chi_square = sum((count - 2000) ** 2 / 2000 for count in counts.values())
    assert len(counts) == 10 and chi_square < 30  # 9 degrees of freedom: p < 0.0005


def test_worker_seed_is_asked():
    with_seed = lambda n: ResampledShards("{0..9}", nshards=9, deterministic=True, worker_seed=lambda: n)
    assert urls(with_seed(1)) == urls(with_seed(1)) != urls(with_seed(2))
    with pytest.raises(SpecError, match="worker_seed"):
        ResampledShards("a", worker_seed=3)


def test_empty_lists():
    with pytest.raises(SpecError, match="empty"):
        ResampledShards([])
    assert list(ResampledShards([], empty_check=False)) == []


def test_max_urls():
    assert ResampledShards("{0..99}", max_urls=3).urls == ["0", "1", "2"]


def test_seed_is_logged_on_request(monkeypatch, caplog, capsys):
    monkeypatch.setenv("WDS_SHOW_SEED", "1")
    with caplog.at_level(logging.INFO):
        list(ResampledShards("a", nshards=1, seed=41))
    assert "seed 41" in caplog.text
    assert capsys.readouterr() == ("", "")  # D51: nothing is printed


def test_alias_pickle_and_repr():
    assert ResampledShardList is ResampledShards
    source = pickle.loads(pickle.dumps(ResampledShards("{0..9}", nshards=3, deterministic=True)))
    assert urls(source) == urls(ResampledShards("{0..9}", nshards=3, deterministic=True))
    assert "nshards=3" in repr(source)


def test_resampled_draws_from_what_came():
    items = [{"url": str(i)} for i in range(5)]
    stage = resampled(50)
    drawn = urls(run(stage, Pass(), items))
    assert len(drawn) == 50 and set(drawn) == set("01234")
    assert drawn != urls(run(stage, Pass(epoch=1), items))
    assert drawn != urls(run(stage, Pass(world=World(0, 1, 1, 2)), items))
    assert list(Resampled(3)(iter([]))) == []


def test_resampled_items_are_fresh():
    first, second = run(Resampled(2), Pass(), [{"url": "a"}])
    assert first == second and first["url"].draw != second["url"].draw


def test_resampled_marks_shards_and_samples_and_nothing_else():
    sample = {"__key__": "a", "url": b"https://example.com", "draw": b"a sketch"}
    (drawn,) = Resampled(1)([sample])
    assert drawn == sample and drawn["__key__"].draw >= 0 and type(drawn["url"]) is bytes
    for item in ({"x": 1}, {"__key__": ["a", "b"], "url": ["c", "d"]}, {"url": ["c", "d"]}):
        (drawn,) = Resampled(1)([item])
        assert drawn == item and drawn is not item


def test_resampled_resumes_by_taking_its_input_again():
    items = [{"url": str(i)} for i in range(5)]
    stage = Resampled(12)
    at = stage.start(Pass())
    assert at.rewinds
    stream, states = stage.run(iter(items), at), [at.save()]
    drawn = []
    for item in stream:
        drawn.append(item["url"])
        states.append(at.save())
    for number, state in enumerate(states):
        again = stage.start(Pass())
        again.load(state, None)
        assert urls(stage.run(iter(items), again)) == drawn[number:]


@pytest.mark.parametrize("wrong", [-1, "3", 2.5])
def test_wrong_numbers_fail_at_construction(wrong):
    with pytest.raises(SpecError):
        Resampled(wrong)


def test_non_empty_remembers_what_it_saw():
    assert list(non_empty([1, 2])) == [1, 2]
    with pytest.raises(SpecError, match="empty"):
        list(non_empty([]))
    stage = NonEmpty()
    at = stage.start(Pass())
    next(stage.run(iter([1]), at))
    again = stage.start(Pass())
    again.load(at.save(), None)
    assert list(stage.run(iter([]), again)) == []


def test_worker_numbers_follow_the_pretended_world():
    source = lambda: ResampledShards("{0..9}", nshards=9, deterministic=True)
    alone = urls(source())
    with pretend(World(rank=1, ranks=2)):
        assert urls(source()) != alone
