"""Which dataset of a mix comes next: in turn, by chance, or by exact shares; with a state that can be saved."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from webdataset.flow import Json, count_in, digest
from webdataset.order import MixSchedule, check_weights, pick


class Drawing(Protocol):
    """A sequence of draws: which dataset comes next."""

    def draw(self) -> int | None:
        """Return the number of the next dataset; None if those that are left have weight 0 now."""

    def drop(self, source: int) -> bool:
        """Go on without this dataset; return False if none is left."""

    def save(self) -> Json:
        """Return the state as JSON."""

    def load(self, saved: Json) -> Drawing:
        """Return the drawing that goes on from a saved state."""


class InTurns(Drawing):
    """One after the other, again and again."""

    def __init__(self, sources: int) -> None:
        self.left, self.turn = list(range(sources)), 0

    def draw(self) -> int:
        """The next one in turn."""
        source = self.left[self.turn]
        self.turn = (self.turn + 1) % len(self.left)
        return source

    def drop(self, source: int) -> bool:
        """Go on without a dataset; the one after it is next."""
        position = self.left.index(source)
        self.left.remove(source)
        self.turn = position % len(self.left) if self.left else 0
        return bool(self.left)

    def save(self) -> Json:
        """Return which datasets are left, and which of them is next."""
        return {"left": list(self.left), "turn": self.turn}

    def load(self, saved: Json) -> InTurns:
        """Go on with the next turn."""
        left, turn = list(saved["left"]), saved["turn"]
        if not set(left) <= set(self.left) or turn not in range(len(left)):
            raise ValueError(f"{left} are left, and it is the turn of {turn}")
        self.left, self.turn = left, turn
        return self


class AtRandom(Drawing):
    """By probability; every draw depends on its number alone."""

    def __init__(self, weights: Sequence[float], key: int) -> None:
        self.weights, self.key, self.step = list(weights), key, 0

    def draw(self) -> int:
        """The one that chance picks."""
        self.step += 1
        return pick(self.weights, digest("mix", self.key, self.step) / 2**64)

    def drop(self, source: int) -> bool:
        """Leave one out."""
        self.weights[source] = 0.0
        return any(self.weights)

    def save(self) -> Json:
        """The weights that are left, and how many draws were made."""
        return {"weights": list(self.weights), "step": self.step}

    def load(self, saved: Json) -> AtRandom:
        """Go on with the next draw."""
        self.weights, self.step = check_weights(saved["weights"], len(self.weights)), count_in(saved["step"])
        return self


class ByShares(Drawing):
    """By exact shares, with weights that change at given draws or when they are set.

    Readers draw in turn: local draw k of reader r of n is global draw k·n + r, and a schedule counts those.

    >>> shares = Shares([(0, [1, 0]), (6, [0, 1])])
    >>> [[drawing.draw() for _ in range(5)] for drawing in (ByShares(shares, (0, 2)), ByShares(shares, (1, 2)))]
    [[0, 0, 0, 1, 1], [0, 0, 0, 1, 1]]

    Args:
        shares: the weights.
        part: which reader this is, of how many.
    """

    def __init__(self, shares: Shares, part: tuple[int, int] = (0, 1)) -> None:
        self._shares, self._part = shares, part
        self._schedule = MixSchedule(shares.first())
        self._step, self._set = 0, shares.in_use()  # `_set`: the weights of `set_weights` that the schedule follows
        self._dropped: set[int] = set()

    def draw(self) -> int | None:
        """Return the dataset that is next by its share."""
        reader, readers = self._part
        now = self._step * readers + reader
        weights = self._shares.changed(range(now - readers + 1, now + 1), since=self._set)
        if weights is not None:
            self._set = self._shares.in_use()
            left = [0.0 if source in self._dropped else weight for source, weight in enumerate(weights)]
            if not any(left):
                return None
            self._schedule.reweight(left)
        self._step += 1
        return self._schedule.draw()

    def drop(self, source: int) -> bool:
        """Leave one out; the others keep their proportions."""
        self._dropped.add(source)
        return self._schedule.drop(source)

    def save(self) -> Json:
        """Return the schedule with its weights, the datasets left out, and the weights that were set and are in use."""
        drawn = {"schedule": self._schedule.save(), "step": self._step, "dropped": sorted(self._dropped)}
        return drawn if self._set is None else {**drawn, "set": self._set}

    def load(self, saved: Json) -> ByShares:
        """Go on with the next draw; weights that were set and are not in use yet are used from then on."""
        if "set" in saved and self._shares.were_set is None:
            self._shares.set(saved["set"])  # release 2.0.0 saved them only here
        self._set = None if saved.get("unused") else saved.get("set")
        self._schedule = MixSchedule.load(saved["schedule"]) if "schedule" in saved else MixSchedule(saved["set"])
        self._step, self._dropped = count_in(saved.get("step", 0)), set(saved.get("dropped", ()))
        return self


class Shares:
    """The weights of a mix: at the start, from given draws on, and those that were set by `set_weights`."""

    def __init__(self, plan: Sequence[tuple[int, Sequence[float]]], were_set: Sequence[float] | None = None) -> None:
        self._plan = sorted((draw, list(weights)) for draw, weights in plan)
        self.were_set = were_set
        self._replays: list[tuple[Callable[[], Any], Sequence[float] | None]] = []  # runs and weights, innermost last

    def __reduce__(self) -> Any:
        return Shares, (self._plan, self.were_set)

    def replay(self, run: Any, weights: Sequence[float] | None) -> None:
        """Use these weights, which were set at the time, while the run reads items again."""
        self._replays.append((weakref.ref(run), weights))

    def first(self) -> Sequence[float]:
        """Return the weights that a pass begins with."""
        return self.in_use() or self._plan[0][1]

    def in_use(self) -> Sequence[float] | None:
        """Return the weights that were set; while items are read again, those that were set at that time."""
        while self._replays:
            run, weights = self._replays[-1][0](), self._replays[-1][1]
            if run is not None and run.is_replaying:
                return weights
            self._replays.pop()
        return self.were_set

    def changed(self, draws: range, since: Sequence[float] | None) -> Sequence[float] | None:
        """Return new weights if others than `since` are set, or if they change at one of these draws; else None."""
        if self.in_use() != since:
            return self.first()
        return next((weights for start, weights in reversed(self._plan) if start > 0 and start in draws), None)

    def set(self, weights: Sequence[float]) -> None:
        """Use these from the next draw on."""
        self.were_set = self.checked(weights)

    def checked(self, weights: Sequence[float]) -> list[float]:
        """Return the weights, checked: one for each dataset of this mix."""
        return check_weights(weights, len(self._plan[0][1]))
