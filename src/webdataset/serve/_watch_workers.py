"""Rates of workers between two reports, and which side is the bottleneck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._fleet import Fleet
from ._worker_roster import FleetOptions

Counts = dict[str, Any]


@dataclass(frozen=True)
class WorkerRates:
    """The rates of one worker between two reports.

    Attributes:
        address: where it listens.
        items: steps sent per second.
        bytes: bytes sent per second.
        busy: the share of time that its threads worked.
        queue: requests that have no answer yet.
        trainers: trainers with such requests.
        shared: the share of items that were made for another trainer before.
        failures: requests that failed, since the start.
        problem: why it does not answer.
    """

    address: str
    items: float = 0.0
    bytes: float = 0.0
    busy: float = 0.0
    queue: int = 0
    trainers: int = 0
    shared: float = 0.0
    failures: int = 0
    problem: str = ""


def look(addresses: Sequence[str], options: FleetOptions) -> dict[str, Counts]:
    """The counters of all workers."""
    with Fleet(addresses, options) as fleet:
        return fleet.stats()


def rates(before: dict[str, Counts], after: dict[str, Counts]) -> list[WorkerRates]:
    """The rates between two reports; those of a worker that was started again count from its start.

    >>> counts = {"items": 0, "bytes": 0, "busy": 0.0, "seconds": 0.0, "threads": 2, "queue": 1, "trainers": 1}
    >>> later = {**counts, "items": 10, "busy": 4.0, "seconds": 4.0}
    >>> rates({"a": counts}, {"a": later})[0].busy
    0.5
    """
    return [_rate(address, before.get(address, {}), counts) for address, counts in after.items()]


def _rate(address: str, before: Counts, after: Counts) -> WorkerRates:
    if "unreachable" in after:
        return WorkerRates(address, problem=str(after["unreachable"]))
    if before.get("seconds", 0.0) > after.get("seconds", 0.0):
        before = {}

    def more(name: str) -> float:
        return float(after.get(name, 0)) - float(before.get(name, 0))

    seconds = max(1e-9, more("seconds"))
    return WorkerRates(
        address,
        items=more("items") / seconds,
        bytes=more("bytes") / seconds,
        busy=min(1.0, more("busy") / seconds / max(1, int(after.get("threads", 1)))),
        queue=int(after.get("queue", 0)),
        trainers=int(after.get("trainers", 0)),
        shared=more("shared") / max(1.0, more("items")),
        failures=int(after.get("failures", 0)),
    )


def bottleneck(workers: Sequence[WorkerRates]) -> str:
    """A sentence that names the slower side, for which the other waits.

    >>> bottleneck([WorkerRates("a", items=3, busy=0.97, queue=4)])
    'The workers are the bottleneck: they are busy 97 % of the time. Add workers.'
    """
    alive = [worker for worker in workers if not worker.problem]
    if not alive:
        return "No worker answers."
    busy = sum(worker.busy for worker in alive) / len(alive)
    if not any(worker.items for worker in alive):
        return "No trainer asks for anything." if not any(w.queue for w in alive) else "The first items are being made."
    if busy > 0.85:
        return f"The workers are the bottleneck: they are busy {100 * busy:.0f} % of the time. Add workers."
    return f"The trainers or the network are the bottleneck: workers are busy {100 * busy:.0f} % of the time."
