"""Checkpoints that are resumed by another loader, or by other ranks and workers, than those that saved them."""

import functools
import itertools
import json
from contextlib import closing

import pytest

import webdataset as wds
from tests.golden.pipelines import columns, indexed, keys, keys_of, number_of
from tests.state.compositions import A, KEPT, plan_filtered, plan_random
from tests.state.reference import Reference, epoch_of, flat
from webdataset import world


def batches_by_loader(workers, number):
    return wds.WebLoader(plan_random(), batch_size=2, num_workers=number, workers=workers, collate_fn=keys)


def batches_by_dataset(workers, number):
    dataset = plan_random().batched(2, collation_fn=keys)
    return wds.WebLoader(dataset, batch_size=None, num_workers=number, workers=workers)


def saved_after(loader, steps):
    """The keys of so many items (None: of all, and the loop has ended), and the state then."""
    with closing(loader):
        items = iter(loader)
        seen = [keys_of(item) for item in itertools.islice(items, steps)]
        return seen, json.loads(json.dumps(loader.state_dict()))


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("workers", ["processes", "threads"])
@pytest.mark.parametrize(
    ("before", "after"), [(batches_by_loader, batches_by_dataset), (batches_by_dataset, batches_by_loader)]
)
def test_batches_of_the_loader_and_of_the_dataset_are_the_same(before, after, workers, steps):
    seen, state = saved_after(before(workers, 0), steps)
    resumed = after(workers, 0)
    resumed.load_state_dict(state)
    epochs = Reference(lambda: before(workers, 0), 2).epochs
    assert seen + epoch_of(resumed) == epochs[0]
    assert epoch_of(resumed) == epochs[1]


# --- ranks, played one after the other in this process --------------------------------------------------------------


def ranked(ranks, work):
    """What `work(rank)` returns on each of so many ranks."""
    found = []
    for rank in range(ranks):
        with world.pretend(world.World(rank=rank, ranks=ranks)):
            found.append(work(rank))
    return found


def keys_without_padding(samples):
    return [sample["__key__"] for sample in samples if not sample.get("__pad__")]


def filtered_loader(dataset=plan_filtered):
    return wds.WebLoader(dataset().batched(1, collation_fn=keys_without_padding), batch_size=None, workers="threads")


def steps_of(rank, steps, state=None, dataset=plan_filtered):
    """Keys and state after so many steps (None: until the loop has ended)."""
    loader = filtered_loader(dataset)
    if state is not None:
        loader.load_state_dict(state)
    seen, state = saved_after(loader, steps)
    return flat(seen), state


ENDED = (None, None)  # 2 steps are all that rank 1 has, but it does not know yet


@pytest.mark.parametrize(
    "steps", [(0, 0), (0, 1), (1, 0), (1, 1), (1, None), (None, 1), (2, 1), (1, 2), ENDED], ids=str
)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_filtered_ranks_merge_although_one_has_ended(steps, ranks):
    """Two ranks take different numbers of steps, one maybe all of its epoch; others go on with what both saved."""
    before = ranked(2, lambda rank: steps_of(rank, steps[rank]))
    merged = wds.merge_states([state for _, state in before])
    after = [] if steps == ENDED else ranked(ranks, lambda rank: steps_of(rank, None, merged)[0])
    assert sorted(flat([*(seen for seen, _ in before), *after])) == sorted(KEPT)


def dropped_on_one_rank(sample):
    return None if number_of(sample) in {4, 6} else sample


def plan_dropped_on_one_rank():
    """By a function: a rank on which it kept every sample does not know that it may leave one out."""
    return indexed().map(dropped_on_one_rank)


@pytest.mark.parametrize("steps", [2, 4])
def test_a_rank_that_has_ended_merges_with_one_that_left_out_nothing(steps):
    """All is done, or it is not known what is; then each rank goes on by itself."""
    part = functools.partial(steps_of, dataset=plan_dropped_on_one_rank)
    before = ranked(2, lambda rank: part(rank, (None, steps)[rank]))
    states = [state for _, state in before]
    if steps == 4:
        after = ranked(1, lambda rank: part(rank, None, wds.merge_states(states))[0])
    else:
        with pytest.raises(wds.StateError, match="rank 0 has ended its epoch"):
            wds.merge_states(states)
        after = [ranked(2, lambda rank: part(rank, None, states[rank])[0])[1]]
    assert sorted(flat([*(seen for seen, _ in before), *after])) == [key for key in A if key not in {"a04", "a06"}]


@pytest.mark.parametrize("steps", range(4))
def test_filtered_batches_are_identical_on_the_same_topology(steps):
    whole = ranked(2, lambda rank: steps_of(rank, None)[0])
    before = ranked(2, lambda rank: steps_of(rank, steps))
    after = ranked(2, lambda rank: steps_of(rank, None, before[rank][1])[0] if len(whole[rank]) > steps else [])
    assert [seen + rest for (seen, _), rest in zip(before, after, strict=True)] == whole


# --- batches that are made again after the loader -------------------------------------------------------------------


def rebatched(workers, number):
    dataset = indexed(order="random").batched(2, collation_fn=columns)
    loader = wds.WebLoader(dataset, batch_size=None, workers=workers, num_workers=number)
    return loader.unbatched().shuffle(4).batched(3, collation_fn=list)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("steps", [1, 2])
def test_rebatched_loader_on_another_topology_loses_nothing_or_refuses(steps, number):
    seen, state = saved_after(rebatched("threads", 0), steps)
    resumed = rebatched("processes", number)
    try:
        resumed.load_state_dict(state)
        rest = epoch_of(resumed)
    except wds.StateError as refusal:
        assert refusal.hint
        return
    finally:
        resumed.close()
    assert sorted(flat(seen + rest)) == sorted(A)
