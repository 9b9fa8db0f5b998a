"""Any number of ranks and workers, played through in one process."""

import json
from contextlib import closing

from webdataset import world
from webdataset.pipeline import is_plan, settled
from webdataset.world import World


def rank_items(make, rank, ranks, workers, state=None):
    """What one rank's loader hands on, batch by batch, each with the state to save after it: workers are asked in turn."""
    streams, places = [], []
    for worker in range(workers):
        with world.pretend(World(rank, ranks, worker, workers)):
            dataset = make()
            if state is not None:
                dataset.load_state_dict(json.loads(json.dumps(state)))
            begun = dataset._resume_from
            stream = dataset.open()
            streams.append((World(rank, ranks, worker, workers), stream, stream.epoch(-1)))
            places.append(begun or {"epoch": 0, "passes": 0, "pass": None, "in_epoch": 0})
    identity = {"version": 1, **dataset.identity()}
    ended, turn = set(), 0
    try:
        while len(ended) < workers:
            worker, turn = turn, (turn + 1) % workers
            if worker in ended:
                continue
            here, stream, items = streams[worker]
            with world.pretend(here):
                try:
                    item = next(items)
                except StopIteration:
                    ended.add(worker)
                    continue
                places[worker] = stream.state()
            yield item, {**identity, "at": settled(places)}
    finally:
        for here, stream, _ in streams:
            with world.pretend(here):
                stream.close()


def play(make, ranks, workers, state=None, steps=None):
    """All ranks, step by step: the batches of each step in the order of the ranks, and what each rank saves after it.

    A list of states is one for every rank.
    """
    states = state if isinstance(state, list) else [state] * ranks
    generators = [rank_items(make, rank, ranks, workers, states[rank]) for rank in range(ranks)]
    played = []
    try:
        while steps is None or len(played) < steps:
            step = [next(items, None) for items in generators]
            if all(each is None for each in step):
                break
            played.append(step)
    finally:
        for items in generators:
            items.close()
    return played


def samples_of(played):
    """The samples of all steps, rank by rank, without padding."""
    return [
        key
        for step in played
        for each in step
        if each is not None
        for key, pad in zip(*each[0], strict=True)
        if not pad
    ]
