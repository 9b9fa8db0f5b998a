"""Core protocols: what a stage, an origin and progress are.

Anything callable on an iterator is a stage: a generator function, a `functools.partial`. Our own stages are frozen
dataclasses of two kinds:

* `PerItem`: a function of one item. It may leave items out (return `DROP`). Neighbours of this kind are fused into one
  loop, and a loader may run that loop on threads, because nothing is held between two items.
* `Resumable`: anything else. It declares what it holds in a `Progress`.

One invariant makes a whole pipeline resumable:

    **Progress is what a stage has taken from upstream and not yet yielded. Change it before you yield.**

So a fresh start is a resume from an empty progress, the state of a pipeline is the flat list of its stages' progresses,
and no stage refers to another. A buffer saves the *origins* of its items, never the items: `Progress.origin` is where
the item that was yielded last came from, and a `Source` can read an item again by its origin.

By convention `at` is the progress of the stage, and `during` the pass. This file does not use tar, torch or threads.
"""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, Self

from webdataset.address import Address, Birth, as_checkpoint, from_checkpoint
from webdataset.errors import StateError, WebDatasetError
from webdataset.handlers import Handler, note_skipped, reraise_exception
from webdataset.world import World

Json = Any
Columns = Any  # many samples by column: a dict of fields, or after `to_tuple` a tuple; a column is a list or an array
Stage = Callable[[Iterator[Any]], Iterator[Any]]
Recall = Callable[[Json], Any]


class _Drop:
    """The value that a per-item function returns to leave the item out; None is an ordinary item."""

    def __repr__(self) -> str:
        return "DROP"

    __reduce__ = __repr__


DROP: Final = _Drop()


class StepByStepError(Exception):
    """Raised by a function of columns for samples that must be processed one by one, which finds the error, if any."""


class EndOfStreamError(Exception):
    """A handler has ended the stream. The stage that catches this sets `Progress.stopped` and yields nothing more."""


# Waits for the items before this one: a handler may count, so it must be called in the order of the items.
turn: ContextVar[Callable[[], None]] = ContextVar("webdataset_turn", default=lambda: None)


def ask_handler(handler: Handler, error: Exception, key: str | None = None, shard: str | None = None) -> None:
    """Call the handler about a failure; return, and note what was left out, if the handler returns True.

    Raises:
        EndOfStreamError: the handler returned False: the stream ends here.
    """
    try:
        turn.get()()
        if not handler(error):
            raise EndOfStreamError from error
        note_skipped(error, key, shard)
    finally:
        del error  # see reraise_exception


class Origin(NamedTuple):
    """Where a sample came from: its shard, its number there, and the byte where its first header starts.

    >>> Origin("a.tar", 3, 4096)
    Origin(shard='a.tar', number=3, offset=4096)
    """

    shard: Json  # from `url_as_json`
    number: int
    offset: int


class Drawn(Address):
    """The address of a shard that may come more than once in a pass, with a number that is different each time.

    >>> Drawn("a.tar", 7), Drawn("a.tar", 7).draw
    ('a.tar', 7)

    It is an address like any other, also as `__url__`; but random choices for a sample are different each time.
    """

    __slots__ = ("draw",)
    draw: int

    def __new__(cls, url: str, draw: int) -> Self:
        """Make an address with a number."""
        self = super().__new__(cls, url)
        self.draw = draw
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[str, int]]:
        plain = self.birth is Birth.USER and not self.number
        return type(self), (str.__str__(self) if plain else Address(self), self.draw)


def url_as_json(url: str) -> Json:
    """Return an address as JSON for a checkpoint, with its draw.

    >>> url_as_json("a.tar"), url_as_json(Drawn("a.tar", 7))
    ('a.tar', ['a.tar', 7])
    """
    plain = as_checkpoint(url)
    return [plain, url.draw] if isinstance(url, Drawn) else plain


def url_from_json(saved: Json) -> str:
    """Return an address from its JSON.

    >>> url_from_json("a.tar"), url_from_json(["a.tar", 7]).draw
    ('a.tar', 7)
    """
    return from_checkpoint(saved) if isinstance(saved, str) else Drawn(from_checkpoint(saved[0]), saved[1])


def digest(*parts: int | str) -> int:
    """Return a 64-bit number that depends on the parts alone: not on the process, the platform or PYTHONHASHSEED.

    >>> digest("shards", 0, 1)
    8940338780190064119
    """
    # The repr of a NumPy scalar depends on the version of NumPy, and is not that of the same number.
    parts = tuple(part.item() if hasattr(part, "item") else part for part in parts)
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over the data: everything that may decide an order.

    `stage`, its number, makes the random choices of equal stages different. `origins` is whether a later stage holds
    items, and saves their origins.

    >>> Pass(seed=1, epoch=2).rng().random() == Pass(seed=1, epoch=2).rng().random()
    True
    >>> Pass(seed=1, epoch=2).rng().random() == Pass(seed=1, epoch=3).rng().random()
    False
    """

    seed: int = 0
    epoch: int = 0
    world: World = field(default_factory=World)
    stage: int = 0
    origins: bool = False

    def rng(self, *salt: int | str, seed: int | None = None) -> random.Random:
        """Return a random generator for this pass and stage; `seed` replaces the pass's seed."""
        return random.Random(digest(self.seed if seed is None else seed, self.epoch, self.stage, *salt))


class PerItem(ABC):
    """A stage that is a function of one item."""

    @property
    def may_drop(self) -> bool:
        """Whether an item may be left out: a handler may skip it."""
        return getattr(self, "handler", reraise_exception) is not reraise_exception

    def count(self, items: int) -> int | None:
        """How many items come out when so many go in; None if that is not known."""
        return None if self.may_drop else items

    @abstractmethod
    def function(self, during: Pass) -> Callable[[Any], Any]:
        """The function for this pass: returns the new item or `DROP`; raises `EndOfStreamError` to end the stream."""

    def on_columns(self) -> Callable[[Columns], Columns] | None:
        """Return a function of many items as columns, fast and without side effects; None if there is none.

        It may raise any exception if the function of one item would not return a result for every item.
        """
        return None

    def __call__(self, items: Iterable[Any], /) -> Iterator[Any]:
        """Run alone, outside a pipeline."""
        return apply_each((self.function(Pass()),), iter(items))


def apply_each(functions: Sequence[Callable[[Any], Any]], items: Iterator[Any]) -> Iterator[Any]:
    """Apply all functions to every item, in one loop.

    >>> list(apply_each([lambda n: n + 1, lambda n: n * n if n % 2 else DROP], iter(range(4))))
    [1, 9]
    """
    apply = fuse(functions)
    try:
        for item in items:
            result = apply(item)
            if result is not DROP:
                yield result
    except EndOfStreamError:
        return


def fuse(functions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """Return several functions as one; after `DROP` the others are not called.

    >>> fuse([abs, str])(-2)
    '2'
    """
    if len(functions) == 1:
        return functions[0]

    def apply(item: Any) -> Any:
        for function in functions:
            item = function(item)
            if item is DROP:
                break
        return item

    return apply


class Progress:
    """What a stage has taken from upstream and not yet yielded; this base holds nothing.

    Attributes:
        upstream: the nearest progress before this one that has an origin of its own; set by the pipeline.
        rewinds: set by a stage that takes its whole input before it yields anything. On resume it takes all of it
            again: the stages before it start again, with what their `save_start` returned.
        stopped: set by a stage whose stream a handler has ended; on resume it is not run.
        interrupted: set by a source when Ctrl-C comes while it makes an item. Its progress is then still right, because
            it changes its progress and yields in one step, with no call in between; no later stage was running.
    """

    upstream: Progress | None = None
    rewinds: bool = False
    stopped: bool = False
    interrupted: bool = False

    @property
    def origin(self) -> Json:
        """Where the item that was yielded last came from: JSON, for `recall`. A list of origins for a batch.

        In `run`, `self.upstream.origin` is the origin of the item that was just taken.
        """
        return self.upstream.origin if self.upstream is not None else None

    def save(self) -> Json:
        """This progress as JSON."""
        return None

    def save_start(self) -> Json:
        """Return how this pass began, as JSON for `load`; None if that follows from seed and epoch."""
        return None

    def save_next(self) -> Json:
        """Return how the next pass begins, as JSON for `load`; None if that follows from seed and epoch."""
        return None

    def follow(self, before: Progress) -> None:
        """Begin the pass after the one that `before` belongs to, in the same process."""
        start = before.save_next()
        if start is not None:
            self.load(start, _no_recall)

    def load(self, saved: Json, recall: Recall) -> None:
        """Go on from a saved progress.

        Args:
            saved: what `save` returned, after a round trip through JSON.
            recall: a function that turns a saved origin back into the item that this stage had received: the item is
                read again and goes through the stages before this one.
        """

    def close(self) -> None:
        """Close what was kept open for the next pass."""

    def take_back(self) -> bool:
        """Go back to before the item that was yielded last, after a function of it failed; False if not possible."""
        return False


def count_in(saved: Json) -> int:
    """Return a count from a checkpoint; anything else is a ValueError, which `well_formed` turns into a StateError.

    >>> count_in(-1)
    Traceback (most recent call last):
    ValueError: expected a count, got -1
    """
    if type(saved) is not int or not 0 <= saved < 2**62:
        raise ValueError(f"expected a count, got {saved!r:.40}")
    return saved


@contextmanager
def well_formed(saved: Json, reader: str, others: Sequence[BaseException] = ()) -> Iterator[None]:
    """Turn the errors of reading a malformed checkpoint in this block into a StateError.

    No code of a user may run in the block, unless its errors are added to `others`, which stay as they are.

    >>> with well_formed({"at": 3}, "the reader"):
    ...     {"at": 3}["source"]
    Traceback (most recent call last):
    webdataset.errors.StateError: malformed checkpoint: the reader cannot read {'at': 3} – give load_state_dict what ...
    """
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        if isinstance(error, WebDatasetError) or error in others:
            raise
        raise StateError(
            f"malformed checkpoint: {reader} cannot read {saved!r:.60}",
            hint="give load_state_dict what state_dict returned",
        ) from error


def _no_recall(origin: Json) -> Any:
    raise StateError(f"nothing is held between two passes, so {origin} cannot be asked for")


class Resumable(ABC):
    """A stage that can go on from the middle: `run(items, start(during))` is the fresh start."""

    splits: ClassVar[bool] = False  # whether it yields only this process's part of the items
    draws: ClassVar[bool] = False  # whether it chooses items at random: before a split, all processes choose the same
    cuts: ClassVar[bool] = False  # whether it may end before its input does
    keeps_count: ClassVar[bool] = False  # whether it yields as many items as it takes
    planned: ClassVar[str | None] = None  # "samples" or "batches": its part of these, in a computed order

    @property
    def carries(self) -> bool:
        """Whether its next pass depends on how far this one came, so that no items may be read ahead between them."""
        return False

    def count(self, items: int) -> int | None:
        """How many items come out when so many go in; None if that is not known."""
        return items if self.keeps_count else None

    @abstractmethod
    def start(self, during: Pass) -> Progress:
        """Return the empty progress of a pass.

        Args:
            during: the pass that begins: its seed, its epoch, and `during.rng()`, a random generator that is the same
                whenever this pass is run.
        """

    @abstractmethod
    def run(self, items: Iterator[Any], at: Any, /) -> Iterator[Any]:
        """Yield items, starting from `at`: what `start` returned, or what `load` made of a checkpoint.

        Change `at` before every `yield`.
        """

    def again(self, origin: Json, recall: Recall) -> Any:
        """Make the item that was yielded with this origin once more; `recall` returns items as this stage takes them.

        Only a stage that makes new items, such as batches, needs a method of its own.
        """
        return recall(origin)

    def __call__(self, items: Iterable[Any] = (), /) -> Iterator[Any]:
        """Run alone, outside a pipeline."""
        return self.run(iter(items), self.start(Pass()))


class Source(Resumable):
    """A resumable stage whose items have origins that it can read again."""

    @abstractmethod
    def recall(self, origin: Json) -> Any:
        """Read the item of this origin again."""

    def again(self, origin: Json, recall: Recall) -> Any:
        """Read the item again: a source has no stage before it."""
        return self.recall(origin)
