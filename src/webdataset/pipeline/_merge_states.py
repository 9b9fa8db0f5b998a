"""Places in planned epochs: out of what every reader knows of itself, what all of them have done.

A pass over a plan says where it is as `{"plan": {"rest": …, "readers": […], "even": …}}`: what was left when it began,
and what each reader took of it. *Settled*, that is one rest, without readers, for any others to go on with; or, where
samples were dropped and other ranks may be further than this one, still with readers, to be joined with those of the
other ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from webdataset.errors import StateError
from webdataset.flow import Json
from webdataset.order import Reader, Remaining

_RETURNED = "give load_state_dict what state_dict returned"
_TOGETHER = "give what all ranks saved at one time, in the order of the ranks"


def is_plan(place: Json) -> bool:
    """Whether a place is in a planned pass.

    >>> is_plan({"epoch": 0, "pass": {"plan": {"rest": {"samples": 9, "position": 3, "also": []}}}}), is_plan(None)
    (True, False)
    """
    return isinstance(place, dict) and isinstance(place.get("pass"), dict) and "plan" in place["pass"]


def check_state(state: Json) -> None:
    """Refuse what no pipeline could have saved, before anything goes on from it.

    >>> check_state({"version": 1, "seed": 0, "stages": [], "at": {}})
    Traceback (most recent call last):
    webdataset.errors.StateError: the checkpoint says None for 'epoch' – give load_state_dict what state_dict returned
    """
    if not isinstance(state, dict) or state.get("version") != 1 or not {"seed", "stages", "at"} <= state.keys():
        raise StateError("this is not the state of a pipeline, or of one that another version saved", hint=_RETURNED)
    check_kinds(state, stages=list, at=dict | None)
    if state["at"] is not None:
        check_place(state["at"])


def check_place(at: Json) -> None:
    """Refuse what no stream could have saved."""
    check_kinds(at, epoch=int, passes=int, in_epoch=int, **{"pass": dict | None})
    if at["pass"]:
        kinds = {"plan": dict, "progress": list, "replay": int}
        known = {name: kind for name, kind in kinds.items() if name in at["pass"]}
        check_kinds(at["pass"], **(known or {"progress": list}))


def check_kinds(saved: Json, **kinds: Any) -> None:
    """Refuse a part of a checkpoint that does not hold such values under these names."""
    if not isinstance(saved, dict):
        raise StateError(f"the checkpoint says {saved!r:.40} where a place belongs", hint=_RETURNED)
    for name, kind in kinds.items():
        if not isinstance(saved.get(name), kind):
            raise StateError(f"the checkpoint says {saved.get(name)!r:.40} for {name!r}", hint=_RETURNED)


def next_epoch_of(place: Json) -> Json:
    """The same place when the epoch around it is over, be it left early: the next one has all its items.

    >>> next_epoch_of({"pass": None, "in_epoch": 5, "skip": 2})
    {'pass': None, 'in_epoch': -2, 'skip': 2}
    """
    return {**place, "in_epoch": -place.get("skip", 0)}  # what is skipped belongs to the past


def is_portable(saved: Json) -> bool:
    """Whether a pass goes on from here on any number of ranks and workers (or has its own check of who may)."""
    if saved is None or "plan" in saved:
        return True
    inner, *others = saved.get("progress", [saved])  # of a loader: where the dataset is that it reads
    return (inner is None or is_plan(inner) or _is_beginning(inner)) and not any(others)


def _is_beginning(place: Json) -> bool:
    return isinstance(place, dict) and place.get("pass", place) is None


def settled(places: Sequence[Json]) -> Json:
    """One place out of those of all workers of this rank.

    >>> rest = {"samples": 10, "position": 0, "also": []}
    >>> plans = [{"rest": rest, "readers": [[0, 1, worker, 2, 2, 2]], "even": True} for worker in (0, 1)]
    >>> settled([{"epoch": 3, "pass": {"plan": plan}} for plan in plans])
    {'epoch': 3, 'pass': {'plan': {'rest': {'samples': 10, 'position': 4, 'also': []}}}}
    """
    plans = [place["pass"]["plan"] if is_plan(place) else {} for place in places]
    begun = next((number for number, plan in enumerate(plans) if "readers" in plan), None)
    if begun is None:
        return places[0]
    return {**places[begun], "pass": {"plan": _settled(plans, plans[begun])}}


def _settled(plans: Sequence[Json], begun: Json) -> Json:
    first = Reader(*begun["readers"][0])
    readers = [_reader(plan, worker, first) for worker, plan in enumerate(plans)] if len(plans) > 1 else _readers(plans)
    everybody = {reader.worker for reader in readers} == set(range(first.workers))
    even = all(plan.get("even", "readers" not in plan) for plan in plans)
    if everybody and first.ranks > 1 and even and _are_in_step(readers):
        # Readers that go in step: one rank speaks for all.
        readers = [reader._replace(rank=rank) for reader in readers for rank in range(first.ranks)]
    elif not everybody or first.ranks > 1:
        return {"rest": begun["rest"], "readers": [list(reader) for reader in readers]}
    return {"rest": _rest(begun).after(readers).save()}


def _are_in_step(readers: Sequence[Reader]) -> bool:
    """Whether the workers took their turns: one that dropped all it had left is passed over, and others get ahead."""
    steps = sum(reader.taken for reader in readers) // readers[0].batch
    return all(reader.taken == len(range(reader.worker, steps, reader.workers)) * reader.batch for reader in readers)


def _reader(plan: Json, worker: int, like: Reader) -> Reader:
    """A worker of this rank; one that has handed on nothing yet may not have said so."""
    known = (each for each in map(_as_reader, plan.get("readers", ())) if each.worker == worker)
    return next(known, like._replace(worker=worker, taken=0))


def _readers(plans: Iterable[Json]) -> list[Reader]:
    return [_as_reader(each) for plan in plans for each in plan["readers"]]


def _as_reader(saved: Json) -> Reader:
    return Reader(*saved)


def _rest(plan: Json) -> Remaining:
    return Remaining.load(plan["rest"], _samples_of(plan["rest"]))


def _samples_of(saved: Json) -> int:
    return int(saved["samples"] if "samples" in saved else _samples_of(saved["before"]))


def merge_states(states: Sequence[dict[str, Json]]) -> dict[str, Json]:
    """One checkpoint out of those of all ranks, for a dataset whose filters let ranks run ahead of each other.

    >>> rest = {"samples": 10, "position": 0, "also": []}
    >>> plans = [{"rest": rest, "readers": [[rank, 2, 0, 1, 2, taken]]} for rank, taken in ((0, 4), (1, 2))]
    >>> states = [{"stages": [], "seed": 0, "at": {"epoch": 0, "pass": {"plan": plan}}} for plan in plans]
    >>> merge_states(states)["at"]["pass"]["plan"]["rest"]
    {'samples': 10, 'position': 6, 'also': []}

    Only needed where samples were dropped, and then only to go on with another number of ranks or workers: without
    filters every rank saves the same.

    Args:
        states: what `state_dict()` gave on every rank after the same step, in the order of the ranks.
    """
    if not states:
        raise StateError("there is nothing to merge", hint=_TOGETHER)
    places = [_place_of(state) for state in states]
    for name in ("seed", "stages", "dataset"):
        if any(state.get(name) != states[0].get(name) for state in states):
            raise StateError(f"the checkpoints differ in {name}", hint=_TOGETHER)
    if any(place["epoch"] != places[0]["epoch"] for place in places):
        raise StateError(f"the checkpoints are of epochs {[place['epoch'] for place in places]}", hint=_TOGETHER)
    merged = {**places[0], "pass": {"plan": merge_plans([place["pass"]["plan"] for place in places])}}
    return _with_place(states[0], merged)


def merge_plans(plans: Sequence[Json]) -> Json:
    """What is left when the ranks have done what these say."""
    uneven = [plan for plan in plans if "readers" in plan]
    if not uneven:
        if any(plan != plans[0] for plan in plans):
            raise StateError("the checkpoints are of different steps", hint=_TOGETHER)
        return plans[0]
    if any(plan["rest"] != uneven[0]["rest"] for plan in uneven):
        raise StateError("the checkpoints do not belong together", hint=_TOGETHER)
    before, readers = _rest(uneven[0]), _readers(uneven)
    ranks, batch = readers[0].ranks, readers[0].batch
    for rank, plan in enumerate(plans):
        if "readers" not in plan:  # this rank dropped nothing, and spoke for all
            steps = -(-(len(before) - len(_rest(plan))) // (ranks * batch))
            readers.append(Reader(rank, ranks, 0, 1, batch, steps * batch))
    _check_complete(readers)
    return {"rest": before.after(readers).save()}


def _check_complete(readers: Sequence[Reader]) -> None:
    workers = {reader.rank: reader.workers for reader in readers}
    expected = {
        (rank, worker) for rank in range(readers[0].ranks) for worker in range(workers.get(rank, readers[0].workers))
    }
    missing = expected - {(reader.rank, reader.worker) for reader in readers}
    if missing:
        raise StateError(f"checkpoints of (rank, worker) {sorted(missing)} are missing", hint=_TOGETHER)


def _place_of(state: dict[str, Json]) -> Json:
    at = state.get("at")
    place = at["pass"]["progress"][0] if at and isinstance(at["pass"], dict) and "progress" in at["pass"] else at
    if not is_plan(place):
        raise StateError(
            "this is not the checkpoint of a planned epoch",
            hint="only checkpoints of indexed datasets can be merged; others resume rank by rank",
        )
    return place


def _with_place(state: dict[str, Any], place: Json) -> dict[str, Any]:
    at = state["at"]
    if "progress" in at["pass"]:
        place = {**at, "pass": {"progress": [place, *at["pass"]["progress"][1:]]}}
    return {**state, "at": place}
