"""Any number of ranks and workers, played through in one process."""

import json

from webdataset import world
from webdataset.loader._worker_cursors import per_worker, join_cursors
from webdataset.pipeline import Cursor
from webdataset.world import World


def rank_items(make, rank, ranks, workers, state=None):
    """What one rank's loader hands on, batch by batch, each with the state to save after it: workers are asked in turn."""
    dataset = make()
    checkpoint = dataset._checkpoint(Cursor(0))
    cursors, turn = [Cursor(0)] * workers, 0
    if state is not None:
        dataset.load_state_dict(json.loads(json.dumps(state)))
        cursors, turn = per_worker(dataset._start.cursor, workers)
    runs = []
    for worker in range(workers):
        here = World(rank, ranks, worker, workers)
        with world.pretend(here):
            run = make().run(cursors[worker])
            runs.append((here, run, run.epoch()))
    ended = set()
    try:
        while len(ended) < workers:
            worker, turn = turn, (turn + 1) % workers
            if worker in ended:
                continue
            here, run, items = runs[worker]
            with world.pretend(here):
                try:
                    item = next(items)
                except StopIteration:
                    ended.add(worker)
                    continue
                cursors[worker] = run.cursor()
            yield item, checkpoint.with_cursor(join_cursors(cursors, turn).settled()).to_json()
    finally:
        for here, run, _ in runs:
            with world.pretend(here):
                run.close()


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
