"""How far the readers of a plan are, as one typed value: what remained when they began, and what each has taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from webdataset.errors import StateError
from webdataset.flow import Json
from webdataset.order import Reader, Remaining, read_reader

_TOGETHER = "give what all ranks saved at one time, in the order of the ranks"


@dataclass(frozen=True, slots=True)
class PlanState:
    """How far an epoch of an indexed dataset is.

    >>> readers = [Reader(rank=0, ranks=1, worker=worker, workers=2, batch=2, taken=2) for worker in (0, 1)]
    >>> PlanState(Remaining(10), tuple(readers)).as_remaining()
    PlanState(remaining=Remaining(samples=10, position=4, also=()), readers=(), in_step=True, turn=0)

    Attributes:
        remaining: what remained of the epoch when the readers began.
        readers: what each reader has taken since. Empty if `remaining` is up to date: then any readers can go on.
        in_step: whether every reader has yielded all that it took. Then all ranks are at the same step.
        turn: the worker whose item comes next.
    """

    remaining: Remaining
    readers: tuple[Reader, ...] = ()
    in_step: bool = True
    turn: int = 0

    def settled(self) -> PlanState:
        """Return this state without readers if each rank reads in one process: the items after it are the same."""
        return self.as_remaining() if self.readers and self.readers[0].workers == 1 else self

    def as_remaining(self) -> PlanState:
        """Return this state without readers, if it is known how far all of them are; else unchanged."""
        if not self.readers:
            return self
        first = self.readers[0]
        complete = {reader.worker for reader in self.readers} == set(range(first.workers))
        if complete and self.in_step and _are_in_step(self.readers):
            readers = [reader._replace(rank=rank) for reader in self.readers for rank in range(first.ranks)]
            return PlanState(self.remaining.after(readers))
        if first.ranks == first.workers == 1:
            return PlanState(self.remaining.after(self.readers))
        return self

    def for_reader(self, reader: Reader) -> tuple[Remaining, int]:
        """Return what a reader of this process starts with: what remains, and how much of its part was taken.

        Raises:
            StateError: the readers were saved with other numbers, and it is not known how far all of them were.
        """
        own = next((saved for saved in self.readers if saved[:-1] == reader[:-1]), None)
        if own is not None:
            return self.remaining, own.taken
        known = self.as_remaining()
        if not known.readers:
            return known.remaining, 0
        if not _missing(self.readers):
            return self.remaining.after(self.readers), 0
        first = self.readers[0]
        raise StateError(
            f"the checkpoint is that of rank {first.rank} of {first.ranks} with {first.workers} workers and batches of "
            f"{first.batch}; this is rank {reader.rank} of {reader.ranks} with {reader.workers} workers and batches of "
            f"{reader.batch}",
            hint="samples were dropped, so ranks are at different positions: join the checkpoints of all ranks with "
            "wds.merge_states to resume with other numbers",
        )

    def to_json(self) -> dict[str, Json]:
        """As JSON."""
        saved: dict[str, Json] = {"remaining": self.remaining.to_json()}
        if self.readers:
            saved["readers"] = [list(reader) for reader in self.readers]
            saved["in_step"], saved["turn"] = self.in_step, self.turn
        return saved

    @classmethod
    def from_json(cls, saved: Json) -> PlanState:
        """Return the state from its JSON."""
        try:
            readers = tuple(read_reader(reader) for reader in saved.get("readers", ()))
            remaining = Remaining.from_json(saved["remaining"])
            return cls(remaining, readers, bool(saved.get("in_step", True)), int(saved.get("turn", 0)))
        except StateError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"malformed checkpoint: {saved!r:.80} is not the state of an indexed dataset",
                hint="give load_state_dict what state_dict returned",
            ) from error


def join_workers(states: Sequence[PlanState], turn: int, *, exact: bool) -> PlanState:
    """Join the states of all workers of a rank; a worker that has yielded nothing yet may have no reader.

    Args:
        states: of all workers.
        turn: the worker whose item comes next.
        exact: keep what each worker took. What remains decides which samples come, in which order; but if more passes
            follow in the same epoch, it does not decide which worker ends this one first.
    """
    begun = next((state for state in states if state.readers), None)
    if begun is None:
        return states[0]
    first = begun.readers[0]
    readers = []
    for worker, state in enumerate(states):
        known = (reader for reader in state.readers if reader.worker == worker)
        readers.append(next(known, first._replace(worker=worker, taken=0)))
    in_step = all(state.in_step for state in states if state.readers)
    joined = PlanState(begun.remaining, tuple(readers), in_step, turn)
    return joined if exact else joined.as_remaining()


def join_ranks(states: Sequence[PlanState | None]) -> PlanState:
    """Return what remains after the states of all ranks; None stands for a rank that has ended its epoch.

    Raises:
        StateError: the states do not belong together, or some are missing.
    """
    uneven = [state for state in states if state is not None and state.readers]
    if not uneven:
        return _one_of(states)
    if any(state.remaining != uneven[0].remaining for state in uneven):
        raise StateError("the checkpoints do not belong together", hint=_TOGETHER)
    before = uneven[0].remaining
    readers = [reader for state in uneven for reader in state.readers]
    ranks, batch = readers[0].ranks, readers[0].batch
    for rank, state in enumerate(states):
        if state is None or not state.readers:  # it ended, or it dropped nothing: then all ranks were in step
            done = len(before) if state is None else len(before) - len(state.remaining)
            readers.append(Reader(rank, ranks, 0, 1, batch, -(-done // (ranks * batch)) * batch))
    if missing := _missing(readers):
        raise StateError(f"checkpoints of (rank, worker) {sorted(missing)} are missing", hint=_TOGETHER)
    return PlanState(before.after(readers))


def _one_of(states: Sequence[PlanState | None]) -> PlanState:
    known = [state for state in states if state is not None]
    if not known or any(state != known[0] for state in known):
        raise StateError("the checkpoints are of different steps", hint=_TOGETHER)
    if len(known) < len(states) and len(known[0].remaining):
        raise StateError(
            f"rank {states.index(None)} has ended its epoch, and the checkpoints of ranks that left out nothing do not "
            "say which samples those are that it left out",
            hint="load them on the same number of ranks, each on the rank that saved it",
        )
    return known[0]


def _are_in_step(readers: Sequence[Reader]) -> bool:
    """Whether the workers took equally many steps in turn; one that dropped all its last samples has taken more."""
    steps = sum(reader.taken for reader in readers) // readers[0].batch
    return all(reader.taken == len(range(reader.worker, steps, reader.workers)) * reader.batch for reader in readers)


def _missing(readers: Iterable[Reader]) -> set[tuple[int, int]]:
    """Return the (rank, worker) pairs whose state is missing."""
    readers = list(readers)
    workers = {reader.rank: reader.workers for reader in readers}
    some: Any = readers[0]
    expected = {(rank, worker) for rank in range(some.ranks) for worker in range(workers.get(rank, some.workers))}
    return expected - {(reader.rank, reader.worker) for reader in readers}
