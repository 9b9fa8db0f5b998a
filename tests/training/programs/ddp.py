"""Runs on every rank: `ddp.py SHARDS CASE...`. Each case trains or reads with DDP and tells what it saw."""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from leaving import leave
from torch.nn.parallel import DistributedDataParallel

import webdataset as wds

SHARDS = sorted(Path(sys.argv[1]).glob("train-*.tar"))
URLS = [str(path) for path in SHARDS]
BATCH = 4


def dataset_of(urls=URLS, **options):
    options = {"seed": 3, "shardshuffle": True} | options
    return wds.WebDataset(urls, **options).decode().to_tuple("npy", "cls", "__key__", "__pad__")


def loader_of(workers=0, dataset=None, **options):
    return wds.WebLoader(dataset or dataset_of(), batch_size=BATCH, num_workers=workers, **options)


def train(batches, model=None, steps=None):
    """Forward and backward on every batch; the numbers of the samples that counted, batch by batch."""
    model = model or DistributedDataParallel(torch.nn.Linear(4, 1))
    seen = []
    for step, (inputs, numbers, _, padding) in enumerate(batches, start=1):
        weight = 1 - torch.as_tensor(padding).float()
        (model(torch.as_tensor(inputs)).squeeze(1) * weight).sum().backward()
        seen.append(torch.as_tensor(numbers)[weight > 0].tolist())
        if step == steps:
            break
    return seen


def epochs(workers):
    """Three epochs: equal steps, every sample once, another order each time."""
    loader = loader_of(workers)
    return {"length": len(loader), "epochs": [train(loader) for _ in range(3)]}


def resume(workers):
    """Stop in the middle, save, go on in a new loader."""
    loader = loader_of(workers)
    first = train(loader, steps=5)
    state = json.loads(json.dumps(loader.state_dict()))
    again = loader_of(workers)
    again.load_state_dict(state)
    return {"epochs": [first + train(again)], "state": state}


def few_shards(workers):
    """One shard for all ranks and workers, without an index."""
    dataset = wds.WebDataset(URLS[:1], index=False, seed=3, shardshuffle=False).decode().to_tuple("cls")
    return [int(number) for (number,) in wds.WebLoader(dataset, batch_size=None, num_workers=workers)]


def tiny(workers):
    """One sample on two ranks: a step each, one of them without weight."""
    dataset = dataset_of([str(path) for path in Path(sys.argv[1]).glob("tiny-*.tar")])
    return [train(loader_of(workers, dataset)) for _ in range(2)]


def resampled(workers):
    """Shards drawn with replacement, epochs of equal size, the same numbers for the same seed."""

    def draw():
        dataset = wds.WebDataset(URLS, resampled=True, seed=3).decode().to_tuple("npy", "cls", "__key__", "cls")
        loader = wds.WebLoader(dataset.batched(BATCH), batch_size=None, num_workers=workers).with_epoch(6)
        return [[numbers.tolist() for _, numbers, *_ in loader] for _ in range(2)]

    return [draw(), draw()]


def broken_here(workers):
    """Samples that only rank 1 cannot decode are left out and counted; every rank makes as many steps as the others."""

    def fail(value):
        if dist.get_rank() == 1 and int(value[0]) == 3:
            raise ValueError("an unreadable image")
        return value

    lost = []

    def count(error):
        lost.append(str(error))
        return True

    dataset = dataset_of().map_tuple(fail, None, None, None, handler=count)
    loader, epochs = loader_of(workers, dataset).with_epoch(12), []
    for _ in range(2):
        lost.clear()
        steps = len(train(loader))
        epochs.append({"steps": steps, "lost": len(lost), "reported": loader.stats().skipped.count})
    return epochs


def broken_strict(workers):
    """The default handler: an error that says which sample, on the rank that has it."""

    def fail(value):
        if dist.get_rank() == 1:
            raise ValueError("an unreadable image")
        return value

    return error_of(lambda: next(iter(loader_of(workers, dataset_of().map_tuple(fail, None, None, None)))))


def node_splitter(workers):
    """A dataset that must not run on several nodes says so."""
    dataset = wds.WebDataset(URLS, nodesplitter=wds.single_node_only, index=False, shardshuffle=False)
    return error_of(lambda: next(iter(dataset)))


def other_seed(workers):
    return error_of(lambda: next(iter(loader_of(workers, dataset_of(seed=dist.get_rank())))))


def other_shards(workers):
    """Lists that the user has split already: half of the samples would be lost."""
    return error_of(lambda: next(iter(loader_of(workers, dataset_of(URLS[dist.get_rank() :: 2])))))


def other_shards_streamed(workers):
    options = {"index": False, "shardshuffle": False}
    return error_of(lambda: next(iter(wds.WebDataset(URLS[dist.get_rank() :: 2], **options))))


def other_epoch(workers):
    loader = loader_of(workers)
    loader.set_epoch(dist.get_rank())
    return error_of(lambda: next(iter(loader)))


def other_position(workers):
    """Rank 1 did not load the checkpoint."""
    loader = loader_of(workers)
    train(loader, steps=2)
    again = loader_of(workers)
    if dist.get_rank() == 0:
        again.load_state_dict(loader.state_dict())
    return error_of(lambda: next(iter(again)))


def other_world(workers):
    """Variables that were left by another launcher: both processes would be rank 0."""
    os.environ["RANK"] = "0"
    try:
        return error_of(lambda: next(iter(loader_of(workers))))
    finally:
        os.environ["RANK"] = str(dist.get_rank())


def larger_world(workers):
    """A number of ranks that is not that of the process group: half of the samples would not be read."""
    known, os.environ["WORLD_SIZE"] = os.environ["WORLD_SIZE"], "4"
    try:
        return error_of(lambda: next(iter(loader_of(workers))))
    finally:
        os.environ["WORLD_SIZE"] = known


def one_rank_reads(workers):
    """Rank 0 reads alone: it goes on after the time, and says that samples are missing."""
    os.environ["WDS_COMPARE_RANKS"] = "0.2"
    try:
        seen = len(list(dataset_of())) if dist.get_rank() == 0 else 0
    finally:
        del os.environ["WDS_COMPARE_RANKS"]
    dist.barrier()
    if dist.get_rank() == 1:
        list(dataset_of())
    return seen


def one_rank_looks(workers):
    """Rank 0 looks at a batch before the training, and is then an epoch ahead of rank 1."""
    loader, model = loader_of(workers), DistributedDataParallel(torch.nn.Linear(4, 1))
    if dist.get_rank() == 0:
        next(iter(loader))  # compared with the first epoch of rank 1, which then waits for the first step of rank 0
        os.environ["WDS_COMPARE_RANKS"] = "0.2"
    try:
        return train(loader, model, steps=2)
    finally:
        os.environ.pop("WDS_COMPARE_RANKS", None)


def own_lists(workers):
    """`nodesplitter=None` and lists of one's own are allowed."""
    options = {"nodesplitter": None, "index": False, "shardshuffle": False}
    dataset = wds.WebDataset(URLS[dist.get_rank() :: 2], **options).decode().to_tuple("cls")
    return [number for (number,) in dataset]


def spawned(workers):
    """Worker processes that are spawned have no process group; they learn the rank from their parent."""
    known = {name: os.environ.pop(name) for name in ("RANK", "WORLD_SIZE")}
    try:
        loader = loader_of(workers, multiprocessing_context="spawn")
        return {"length": len(loader), "epochs": [train(loader)]}
    finally:
        os.environ |= known


def dies_spawned(workers):
    """The same with worker processes that are spawned."""
    dies(workers, multiprocessing_context="spawn")


def dies(workers, **options):
    """Rank 1 is killed in the middle of an epoch."""
    loader = loader_of(workers, **options)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    for step, batch in enumerate(loader):
        if step == 3 and dist.get_rank() == 1:
            os.kill(os.getpid(), 9)
        train([batch], model)


def error_of(action):
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def main():
    dist.init_process_group("gloo")
    results = {}
    for case in sys.argv[2:]:
        name, _, workers = case.partition(":")
        results[case] = globals()[name](int(workers or 0))
        Path(f"rank-{dist.get_rank()}.json").write_text(json.dumps(results))
        dist.barrier()
    leave()


if __name__ == "__main__":
    main()
