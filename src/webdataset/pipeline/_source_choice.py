"""Which dataset of a mix comes next: in turn, by chance, or by exact shares; with a state that can be saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from webdataset.flow import Json, digest
from webdataset.order import MixSchedule, check_weights, pick


class Drawing(Protocol):
    """Decides which dataset comes next."""

    def draw(self) -> int | None:
        """The number of the dataset; None if those that are left have lost their weight."""

    def drop(self, source: int) -> bool:
        """Go on without this one; False when none is left."""

    def save(self) -> Json:
        """What is needed to go on drawing, as JSON."""

    def save_start(self) -> Json:
        """How a pass begins, as JSON that `load` takes; None if nothing was set."""
        return None

    def load(self, saved: Json) -> Drawing:
        """The drawing that goes on from what was saved."""


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
        """Leave one out; whoever came after it is next."""
        place = self.left.index(source)
        self.left.remove(source)
        self.turn = place % len(self.left) if self.left else 0
        return bool(self.left)

    def save(self) -> Json:
        """Who is left, and whose turn it is."""
        return {"left": list(self.left), "turn": self.turn}

    def load(self, saved: Json) -> InTurns:
        """Go on with the next turn."""
        self.left, self.turn = list(saved["left"]), saved["turn"]
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
        self.weights, self.step = list(saved["weights"]), saved["step"]
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
        self._step, self._version = 0, shares.version
        self._dropped: set[int] = set()

    def draw(self) -> int | None:
        """The one whose turn it is by its share."""
        reader, readers = self._part
        now = self._step * readers + reader
        weights = self._shares.changed(range(now - readers + 1, now + 1), since=self._version)
        if weights is not None:
            self._version = self._shares.version
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
        """The schedule, with its weights, who is left out, and the weights that were set."""
        drawn = {"schedule": self._schedule.save(), "step": self._step, "dropped": sorted(self._dropped)}
        unused = {"unused": True} if self._version != self._shares.version else {}  # those that were set
        return {**drawn, **unused, **(self.save_start() or {})}

    def save_start(self) -> Json:
        """The weights that were set: passes begin with them."""
        return None if self._shares.were_set is None else {"set": self._shares.were_set}

    def load(self, saved: Json) -> ByShares:
        """Go on with the next draw, and with the weights in force then."""
        if "set" in saved:
            self._shares.set(saved["set"])
        self._version = self._shares.version - saved.get("unused", False)
        self._schedule = MixSchedule.load(saved["schedule"]) if "schedule" in saved else MixSchedule(saved["set"])
        self._step, self._dropped = saved.get("step", 0), set(saved.get("dropped", ()))
        return self


class Shares:
    """The weights of a mix: at the start, from given draws on, and whatever was set since."""

    def __init__(self, plan: Sequence[tuple[int, Sequence[float]]]) -> None:
        self._plan = sorted((draw, list(weights)) for draw, weights in plan)
        self.were_set: list[float] | None = None
        self.version = 0

    def first(self) -> list[float]:
        """The weights that a pass begins with."""
        return self._plan[0][1] if self.were_set is None else self.were_set

    def changed(self, draws: range, since: int) -> list[float] | None:
        """New weights if they change at one of these draws, else None."""
        if self.version != since:
            return self.were_set
        return next((weights for start, weights in reversed(self._plan) if start > 0 and start in draws), None)

    def set(self, weights: Sequence[float]) -> None:
        """Use these from the next draw on."""
        self.were_set = check_weights(weights, len(self._plan[0][1]))
        self.version += 1
