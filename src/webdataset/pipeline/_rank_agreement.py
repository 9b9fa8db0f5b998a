"""Check that all ranks read the same dataset: each computes its own part, so otherwise samples are lost or repeated.

Every rank writes what it is about to read into the store of the default process group, and compares. This is not a
collective operation: a rank that comes late, or never, delays the others for a limited time only.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from webdataset import config, world
from webdataset.errors import SpecError
from webdataset.flow import Json
from webdataset.plan import reads_by_plan
from webdataset.shards import ShareShards, SplitByNode

from ._checkpoint import fingerprint
from ._cursor import Cursor, InStages
from ._inner_datasets import directly_inside

logger = logging.getLogger(__name__)

Facts = dict[str, Json]
_HINTS = {
    "seed": "give the dataset the same seed= on every rank",
    "shards": "give every rank all shards, each takes its own part; nodesplitter=None reads all of them on every rank; "
    "iterate the same datasets in the same order on all ranks",
    "epoch": "call set_epoch with the same number on every rank, and load the same checkpoint",
    "position": "load the checkpoint of the same step on every rank",
    "ranks": "check RANK and WORLD_SIZE",
}
_begun: list[Any] = [None, 0]  # the process group, and how many comparisons were made in it


def check_ranks(pipeline: Any, cursor: Cursor) -> None:
    """Compare with the other ranks what this one is about to read.

    Args:
        pipeline: the dataset or loader.
        cursor: where it begins.

    Raises:
        SpecError: ranks disagree. Every rank that compares in time raises it.
    """
    seconds = config.read("WDS_COMPARE_RANKS")
    sources = [leaf for leaf in _sources(pipeline) if _is_split(leaf)]
    if seconds <= 0 or not sources or world.in_worker() or world.current().ranks == 1:
        return
    group, store = _group_and_store()
    if store is None or group.size() == 1:
        return
    if _begun[0] is not group:
        _begun[:] = [group, 0]
    # torchrun may keep the store when it restarts the ranks.
    name = f"webdataset/{config.read('TORCHELASTIC_RESTART_COUNT')}/{_begun[1]}"
    _begun[1] += 1
    found = _exchange(store, name, group.rank(), group.size(), _facts(sources, cursor), seconds)
    _compare(found)
    if len(found) == group.size():
        _check_sum(found)


def _facts(sources: list[Any], cursor: Cursor) -> Facts:
    here = world.current()
    return {
        "seed": [leaf.seed for leaf in sources],
        "shards": list(fingerprint([leaf.pipeline[0] for leaf in sources])),
        "epoch": cursor.epoch,
        "position": _position(cursor),
        "ranks": here.ranks,
        "rank": here.rank,
    }


def _position(cursor: Cursor) -> Json:
    """Return where the epoch begins; None if every rank has a cursor of its own."""
    if isinstance(cursor.where, InStages) and isinstance(cursor.where.progress[0], Cursor):
        return _position(cursor.where.progress[0])
    if cursor.is_beginning:
        return "the beginning"
    plan = cursor.plan
    return None if plan is None or plan.readers else plan.remaining.to_json()


def _exchange(store: Any, name: str, rank: int, ranks: int, facts: Facts, seconds: float) -> dict[int, Facts]:
    """Return the facts of all ranks that wrote them in time."""
    store.set(f"{name}/{rank}", json.dumps(facts))
    keys = {other: f"{name}/{other}" for other in range(ranks)}
    try:
        store.wait(list(keys.values()), timedelta(seconds=seconds))
    except RuntimeError:  # torch raises it, or a subclass, after the time
        keys = {other: key for other, key in keys.items() if other == rank or store.check([key])}
        logger.warning(
            "rank %d waited %g s: only ranks %s have begun epoch %s of this dataset. If the others begin it later, "
            "nothing is lost. If they do not read this dataset, their samples are missing: nodesplitter=None reads all "
            "of it on one rank. If they are still in the epoch before, samples are repeated and lost: call iter() "
            "equally often on all ranks. WDS_COMPARE_RANKS=0 switches the comparison off",
            rank,
            seconds,
            sorted(keys),
            facts["epoch"],
        )
    return {other: json.loads(store.get(key)) for other, key in keys.items()}


def _compare(found: dict[int, Facts]) -> None:
    for name, hint in _HINTS.items():
        values = {rank: facts[name] for rank, facts in found.items() if facts[name] is not None}
        if len({json.dumps(value) for value in values.values()}) > 1:
            listed = "; ".join(f"rank {rank} has {_plain(value)}" for rank, value in values.items())
            raise SpecError(f"the ranks disagree on the {name}: {listed:.2000}", hint=hint)


def _check_sum(found: dict[int, Facts]) -> None:
    """Check that every rank has as many processes as the others: one, or all those that share a model."""
    claims = Counter(facts["rank"] for facts in found.values())
    ranks = range(next(iter(found.values()))["ranks"])
    if len({claims[rank] for rank in ranks}) > 1:
        listed = ", ".join(f"rank {rank} has {claims[rank]}" for rank in ranks)
        raise SpecError(f"the ranks differ in their numbers of processes: {listed:.2000}", hint=_HINTS["ranks"])


def _plain(value: Json) -> Json:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _sources(pipeline: Any) -> Iterator[Any]:
    """Yield the datasets that read shards: this one, or those inside it."""
    inner = list(directly_inside(pipeline))
    if not inner and pipeline.pipeline:
        yield pipeline
    for dataset in inner:
        yield from _sources(dataset)


def _is_split(pipeline: Any) -> bool:
    return reads_by_plan(pipeline.pipeline) or any(
        isinstance(stage, SplitByNode) or (isinstance(stage, ShareShards) and stage.among == "rank")
        for stage in pipeline.pipeline
    )


def _group_and_store() -> tuple[Any, Any]:
    """Return the default process group and its key-value store; None for what does not exist."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None, None
    # torch has no public name for it. Without it ranks are not compared.
    store = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_get_default_store", None)
    return distributed.group.WORLD, None if store is None else store()
