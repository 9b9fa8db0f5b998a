"""Which source comes next in a weighted mix, without chance: every window of 1,000 draws has every source's share.

A plan of 1,000 slots is repeated. Of its 1,000·weight slots a source owns the whole part for good, spread evenly; the
fractions of all sources together make up m further slots, whose owners change from one round of the plan to the next.
Each round gives them to the m sources that are furthest behind; a source that keeps a slot keeps the same one. So any
1,000 draws in a row, wherever they begin, see every slot once and no source twice in the changing slots: every source
has its whole part and at most one more, less than one away from its share. And since those behind go first, no source
is ever far from its share of all draws.

All numbers are integers in units of 2⁻⁴⁰ draws, so the sequence is the same everywhere and the state is JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from webdataset.errors import StateError

from ._weights import check_weights

WINDOW: Final = 1000
UNIT: Final = 1 << 40

_CHANGING: Final = -1


class MixSchedule:
    """The sequence of sources for given weights, which may change at any time.

    >>> schedule = MixSchedule([2, 1, 1])
    >>> [schedule.draw() for _ in range(8)]
    [0, 1, 2, 0, 0, 1, 2, 0]
    >>> schedule.reweight([0, 1, 1])
    >>> [schedule.draw() for _ in range(6)]
    [1, 2, 1, 2, 1, 2]
    """

    def __init__(self, weights: Sequence[float]) -> None:
        self._behind = [0] * len(weights)
        self._begin(weights)

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights in force, as they were given."""
        return tuple(self._weights)

    def draw(self) -> int:
        """Return the source that comes next."""
        source = self._overdue.pop(0) if self._overdue else self._from_plan()
        self._draws += 1
        self._counts[source] += 1
        return source

    def reweight(self, weights: Sequence[float]) -> None:
        """Use other weights from the next draw on; draws that sources are behind or ahead are carried over."""
        self._behind = self._owed()
        self._begin(weights)

    def drop(self, source: int) -> bool:
        """Go on without a source that is exhausted; return False if none is left."""
        weights = [0.0 if number == source else weight for number, weight in enumerate(self._weights)]
        if not any(weights):
            return False
        self.reweight(weights)
        return True

    def save(self) -> dict[str, Any]:
        """The state: a few integers per source.

        >>> MixSchedule([1, 1]).save()["weights"]
        [1.0, 1.0]
        """
        return {
            "weights": list(self._weights),
            "behind": list(self._behind),
            "counts": list(self._counts),
            "overdue": list(self._overdue),
            "step": self._step,
            "credit": list(self._credit),
            "owners": list(self._owners),
        }

    @classmethod
    def load(cls, saved: dict[str, Any]) -> MixSchedule:
        """Return the schedule from its saved state; its next draws are those of the saved one.

        >>> schedule = MixSchedule([3, 2])
        >>> first = [schedule.draw() for _ in range(100)]
        >>> again = MixSchedule.load(schedule.save())
        >>> [schedule.draw() for _ in range(900)] == [again.draw() for _ in range(900)]
        True
        """
        try:
            sources = range(len(saved["weights"]))
            numbers = [saved[name] for name in ("behind", "counts", "credit")]
            if (
                any(len(each) != len(sources) or any(type(value) is not int for value in each) for each in numbers)
                or any(abs(owed) > WINDOW * UNIT for owed in saved["behind"])  # each draw that is owed takes a step
                or not set(saved["overdue"]) | set(saved["owners"]) <= set(sources)
                or type(saved["step"]) is not int
            ):
                raise TypeError("expected integers for each source")
            schedule = cls(saved["weights"])
            schedule._behind = list(saved["behind"])
            schedule._begin(saved["weights"])
            schedule._counts, schedule._overdue = list(saved["counts"]), list(saved["overdue"])
            schedule._draws = sum(schedule._counts)
            schedule._step = saved["step"]
            schedule._credit, schedule._owners = list(saved["credit"]), list(saved["owners"])
        except (KeyError, TypeError, IndexError) as error:
            raise StateError("this is not the state of a mix", hint="give what save() returned") from error
        return schedule

    def _begin(self, weights: Sequence[float]) -> None:
        self._weights = check_weights(weights, len(self._behind))
        self._shares = _shares(self._weights)
        self._counts, self._draws = [0] * len(self._weights), 0
        self._behind = _settled(self._behind, self._shares)
        behind, self._overdue = _catch_up(self._behind, self._shares)
        self._fixed = [WINDOW * share // UNIT for share in self._shares]
        self._fractions = [WINDOW * share % UNIT for share in self._shares]
        self._changing = sum(self._fractions) // UNIT
        self._plan = _plan(self._fixed, self._changing, behind)
        self._step = 0
        self._credit = list(behind)
        self._owners: list[int] = []

    def _from_plan(self) -> int:
        where = self._step % WINDOW
        if where == 0:
            self._assign()
        self._step += 1
        slot = self._plan[where]
        return slot if slot >= 0 else self._owners[_CHANGING - slot]

    def _assign(self) -> None:
        """Give the changing slots of this round to those furthest behind."""
        self._credit = [credit + fraction for credit, fraction in zip(self._credit, self._fractions, strict=True)]
        ranked = sorted(
            (source for source, fraction in enumerate(self._fractions) if fraction),
            key=lambda source: (-self._credit[source], source),
        )
        chosen = ranked[: self._changing]
        for source in chosen:
            self._credit[source] -= UNIT
        newcomers = [source for source in chosen if source not in self._owners]
        if not self._owners:
            self._owners = newcomers
        else:
            self._owners = [owner if owner in chosen else newcomers.pop(0) for owner in self._owners]

    def _owed(self) -> list[int]:
        return [
            behind + self._draws * share - UNIT * count
            for behind, share, count in zip(self._behind, self._shares, self._counts, strict=True)
        ]


def _shares(weights: Sequence[float]) -> list[int]:
    """Weights as integers that sum to UNIT."""
    total = sum(weights)
    shares = [int(weight / total * UNIT) for weight in weights]
    shares[shares.index(max(shares))] += UNIT - sum(shares)
    return shares


def _settled(behind: list[int], shares: list[int]) -> list[int]:
    """Forget what sources without weight are owed, and let the others carry the difference, so that it sums to 0."""
    kept = [owed if share else 0 for owed, share in zip(behind, shares, strict=True)]
    excess = sum(kept)
    kept = [owed - excess * share // UNIT for owed, share in zip(kept, shares, strict=True)]
    kept[shares.index(max(shares))] -= sum(kept)
    return kept


def _catch_up(behind: list[int], shares: list[int]) -> tuple[list[int], list[int]]:
    """The sources that are owed a whole draw and more, in order; and what is owed when they had theirs."""
    behind, overdue = list(behind), []
    while max(behind) >= UNIT:
        source = behind.index(max(behind))
        overdue.append(source)
        behind = [owed + share for owed, share in zip(behind, shares, strict=True)]
        behind[source] -= UNIT
    return behind, overdue


def _plan(fixed: list[int], changing: int, behind: list[int]) -> list[int]:
    """The owners of the slots: sources, and -1, -2, … for the changing ones; those behind come a little earlier."""
    slots = [
        (((2 * turn + 1) * UNIT - 2 * owed) / count, source)
        for source, (count, owed) in enumerate(zip(fixed, behind, strict=True))
        for turn in range(count)
    ]
    slots += [((2 * turn + 1) * UNIT / changing, _CHANGING - turn) for turn in range(changing)]
    return [source for _, source in sorted(slots)]
