"""Version 1 of the state, turned into version 2. No other file reads its keys.

Version 1 had no types. The state of a dataset inside another was a dict with `epoch`, `passes`, `pass` and `in_epoch`,
anywhere in the state; between two passes the dict had `next_epoch` and `at`.
"""

from __future__ import annotations

import re
from typing import Any

from webdataset.describe import same_everywhere
from webdataset.errors import StateError
from webdataset.flow import Json

_BATCHING = re.compile(
    r"batching=Batching\(size=(?P<size>\d+), collate=(?P<collate>.*), drop_last=(?P<drop_last>\w+)\)"
)
_RUNNING = {"epoch", "passes", "pass", "in_epoch"}
_BETWEEN = {"next_epoch", "at"}


def upgrade(saved: dict[str, Json]) -> dict[str, Json]:
    """Return the same state as version 2 would have written it.

    >>> upgrade({"version": 1, "seed": 0, "stages": [], "next_epoch": 3, "at": None})["at"]
    {'epoch': 3, 'passes': 0, 'position': 0, 'beginning': []}
    """
    try:
        return _upgraded(saved)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StateError(
            f"malformed checkpoint of version 1: {saved!r:.80}", hint="give load_state_dict what state_dict returned"
        ) from error


def _upgraded(saved: dict[str, Json]) -> dict[str, Json]:
    dataset = saved.get("dataset")
    starts: list[Json] = []
    if "parts" in saved:
        starts = [{"datasets": [_value(part) for part in saved["parts"]]}]
    elif dataset is not None and "next_epoch" in dataset:
        starts = [{"$cursor": _beginning(dataset["next_epoch"])}]
    at = saved["at"]
    cursor = _beginning(saved.get("next_epoch", 0), starts) if at is None else _cursor(at, starts)
    result = {"version": 2, **_identity(saved), "at": cursor}
    if dataset is None:
        return result
    result["dataset"] = _identity(dataset)
    batching = _BATCHING.search(result["stages"][0])
    return result if batching is None else _batched_inside(result, batching)


def _batched_inside(state: dict[str, Any], batching: re.Match[str]) -> dict[str, Json]:
    """Version 1 made batches in the loader, from samples that it counted; now the last stage of the dataset does."""
    size, collate, drop_last = int(batching["size"]), batching["collate"], batching["drop_last"] == "True"
    stage = f"batched(batchsize={size}, collation_fn={collate}{', partial=False' * drop_last})"
    state["stages"][0] = state["stages"][0].replace(batching[0], "batching=None")
    state["dataset"]["stages"].append(stage)
    if "stages" in state["at"]:
        first = state["at"]["stages"][0]
        for each in first.get("workers", [first]):
            inner = each["$cursor"]
            skip = inner.pop("skip", 0)
            if "stages" in inner:
                inner["stages"].append({"held": [], "skip": skip})
            elif skip:
                inner["skip"] = -(-skip // size)
    return state


def _identity(saved: dict[str, Json]) -> dict[str, Json]:
    # A loader's default collation was part of the text in version 1, and is not in version 2.
    stages = [same_everywhere(str(stage)).replace(", collation_fn=usual", "") for stage in saved["stages"]]
    return {"seed": saved["seed"], "stages": stages, "inner_seeds": None}


def _beginning(epoch: int, starts: list[Json] | None = None) -> dict[str, Json]:
    return {"epoch": epoch, "passes": 0, "position": 0, "beginning": starts or []}


def _cursor(at: dict[str, Any], starts: list[Json] | None = None) -> dict[str, Json]:
    skip = at.get("skip", 0)
    saved_pass = at["pass"]
    cursor: dict[str, Json] = {"epoch": at["epoch"], "passes": at["passes"], "position": at["in_epoch"] + skip}
    if saved_pass is None:
        cursor["beginning"] = starts or []
    elif "plan" in saved_pass:
        cursor["plan"] = _plan(saved_pass["plan"])
    elif "replay" in saved_pass:
        cursor["beginning"] = []
        skip += saved_pass["replay"]
    else:
        cursor["stages"] = [_value(progress) for progress in saved_pass["progress"]]
    if skip:
        cursor["skip"] = skip
    if "world" in at:
        ranks, workers = at["world"]
        cursor["world"] = [-1, ranks, -1, workers]
    return cursor


def _plan(saved: dict[str, Any]) -> dict[str, Json]:
    plan: dict[str, Json] = {"remaining": saved["rest"]}
    if "readers" in saved:
        plan.update(readers=saved["readers"], in_step=saved.get("even", False), turn=0)
    return plan


def _value(value: Json) -> Json:
    if isinstance(value, list):
        return [_value(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() >= _RUNNING:
        return {"$cursor": _cursor(value)}
    if value.keys() >= _BETWEEN:
        parts = [{"datasets": [_value(part) for part in value["parts"]]}] if "parts" in value else None
        at = value["at"]
        return {"$cursor": _beginning(value["next_epoch"], parts) if at is None else _cursor(at, parts)}
    if value.keys() == {"rest", "readers"}:
        return _plan(value)
    return {name: _value(each) for name, each in value.items()}
