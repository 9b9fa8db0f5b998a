"""Core protocols: what a stage, an origin and progress are.

Anything callable on an iterator is a stage: a generator function, a `functools.partial`. Our own stages are frozen
dataclasses of two kinds:

* `PerItem`: a function of one item. It may leave items out (return `DROP`). Neighbours of this kind are fused into one
  loop, and a loader may run that loop on threads, because nothing is held between two items.
* `Resumable`: anything else. It declares what it holds in a `Progress`.

One invariant makes a whole pipeline resumable:

    **Progress is what a stage has taken from upstream and not yet yielded. Change it before you yield.**

So a fresh start is a resume from an empty progress, the state of a pipeline is the flat list of its stages' progresses,
and no stage mentions another. A buffer saves the *origins* of what it holds, never payloads: `Progress.origin` tells
where the item that was yielded last came from, and a `Source` can read an origin again.

This file knows nothing of tar, torch or threads.
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
    """The one value that a per-item function returns to leave the item out; None is an ordinary item."""

    def __repr__(self) -> str:
        return "DROP"

    def __reduce__(self) -> str:
        return "DROP"


DROP: Final = _Drop()


class StepByStepError(Exception):
    """Raised by a function of columns for samples that must be taken one by one; what is wrong is found there."""


class EndOfStreamError(Exception):
    """A handler said stop. The stage that catches it sets `Progress.stopped` and yields nothing more."""


# Returns when those that came before were through: a handler may count, so it is asked in the order of the items.
turn: ContextVar[Callable[[], None]] = ContextVar("webdataset_turn", default=lambda: None)


def ask_handler(handler: Handler, error: Exception, key: str | None = None, shard: str | None = None) -> None:
    """Return if the handler says to go on after this failure; what was left out is noted.

    Raises:
        EndOfStreamError: the stream is to end here.
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

    shard: Json  # as `url_as_json` says
    number: int
    offset: int


class Drawn(Address):
    """The address of a shard that may come more than once in a pass, with a number that tells the times apart.

    >>> Drawn("a.tar", 7), Drawn("a.tar", 7).draw
    ('a.tar', 7)

    It is an address like any other, also as `__url__` of samples; but what is left to chance is another each time a
    sample comes.
    """

    __slots__ = ("draw",)
    draw: int

    def __new__(cls, url: str, draw: int) -> Self:
        """The address, and the number."""
        self = super().__new__(cls, url)
        self.draw = draw
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[str, int]]:
        plain = self.birth is Birth.USER and not self.number
        return type(self), (str.__str__(self) if plain else Address(self), self.draw)


def url_as_json(url: str) -> Json:
    """An address for a checkpoint, with its draw.

    >>> url_as_json("a.tar"), url_as_json(Drawn("a.tar", 7))
    ('a.tar', ['a.tar', 7])
    """
    plain = as_checkpoint(url)
    return [plain, url.draw] if isinstance(url, Drawn) else plain


def url_from_json(saved: Json) -> str:
    """The address again.

    >>> url_from_json("a.tar"), url_from_json(["a.tar", 7]).draw
    ('a.tar', 7)
    """
    return from_checkpoint(saved) if isinstance(saved, str) else Drawn(from_checkpoint(saved[0]), saved[1])


def digest(*parts: int | str) -> int:
    """A 64-bit number that depends on the parts alone: not on the process, the platform or PYTHONHASHSEED.

    >>> digest("shards", 0, 1)
    8940338780190064119
    """
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over the data: everything that may decide an order. `stage` tells equal stages apart.

    `origins` says that a later stage holds items, and saves their origins.

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
        """A generator of this pass's own; `seed` replaces the pass's seed."""
        return random.Random(digest(self.seed if seed is None else seed, self.epoch, self.stage, *salt))


class PerItem(ABC):
    """A stage that is a function of one item."""

    @property
    def may_drop(self) -> bool:
        """Whether an item may be left out; where a handler is asked about failures, it may."""
        return getattr(self, "handler", reraise_exception) is not reraise_exception

    def count(self, items: int) -> int | None:
        """How many items come out when so many go in; None if that is not known."""
        return None if self.may_drop else items

    @abstractmethod
    def function(self, during: Pass) -> Callable[[Any], Any]:
        """The function for this pass: returns the new item or `DROP`; raises `EndOfStreamError` to end the stream."""

    def on_columns(self) -> Callable[[Columns], Columns] | None:
        """The same for many items at once, cheap and without side effects; None where only one at a time will do.

        It raises any exception where the function would not give a result for every item.
        """
        return None

    def __call__(self, items: Iterable[Any], /) -> Iterator[Any]:
        """Run alone, outside a pipeline."""
        return apply_each((self.function(Pass()),), iter(items))


def apply_each(functions: Sequence[Callable[[Any], Any]], items: Iterator[Any]) -> Iterator[Any]:
    """Take every item through all functions in one loop.

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
    """One function out of several; `DROP` ends the way through early.

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

    `upstream` is wired by the pipeline: the nearest progress before this one that can tell an origin. A stage that
    takes its whole input before it hands anything on sets `rewinds`: it takes it all again on resume, and what is
    upstream starts afresh, with what `save_start` says. One whose stream a handler has ended sets `stopped`: on resume
    it is not run. A source that changes its progress and hands an item on in one step, with no call in between, sets
    `interrupted` if Ctrl-C comes while it makes an item: its progress is certain, and the stages after it only wait.
    """

    upstream: Progress | None = None
    rewinds: bool = False
    stopped: bool = False
    interrupted: bool = False

    @property
    def origin(self) -> Json:
        """Where the item that was yielded last came from: JSON, for `recall`. A list of origins for a batch.

        `self.upstream.origin` in `run` tells where the item that was just taken came from.
        """
        return self.upstream.origin if self.upstream is not None else None

    def save(self) -> Json:
        """This progress as JSON."""
        return None

    def save_start(self) -> Json:
        """How this pass began, as JSON that `load` takes; None where seed and epoch say all there is to say."""
        return None

    def save_next(self) -> Json:
        """How the next pass begins, as JSON that `load` takes; None where seed and epoch say all there is to say."""
        return None

    def follow(self, before: Progress) -> None:
        """Begin the pass after the one that `before` belongs to, in the same process."""
        start = before.save_next()
        if start is not None:
            self.load(start, _no_recall)

    def load(self, saved: Json, recall: Recall) -> None:
        """Become what was saved.

        Args:
            saved: what `save` returned, after a round trip through JSON.
            recall: a function that turns a saved origin back into the item that this stage had received: the item is
                read again and goes through the stages before this one.
        """

    def close(self) -> None:
        """Close what is kept open for the next pass."""

    def take_back(self) -> bool:
        """Be as before the item that was yielded last: a function of it failed. False where only its origin helps."""
        return False


def count_in(saved: Json) -> int:
    """A count as a checkpoint has it; anything else is a ValueError, which becomes a malformed checkpoint.

    >>> count_in(3)
    3
    >>> count_in(-1)
    Traceback (most recent call last):
    ValueError: expected a count, got -1
    """
    if type(saved) is not int or not 0 <= saved < 2**62:
        raise ValueError(f"expected a count, got {saved!r:.40}")
    return saved


@contextmanager
def well_formed(saved: Json, reader: str, others: Sequence[BaseException] = ()) -> Iterator[None]:
    """What is not in the form that a stage saves is the checkpoint's fault.

    No code of a user may run in the block, unless what it raises is added to `others`.

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
    """A stage that can go on from the middle: `run(items, start(during))` is the fresh start.

    One that `splits` yields this process's part of what comes; one that `draws` leaves its choice to chance, and
    before a split chance must decide alike in all processes, or items would be lost. One that `cuts` may end before its
    input does; one that `carries` begins its next pass by how far this one came, so nothing is read ahead between the
    two. One that `keeps_count` yields as many items as it takes.
    """

    splits: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    cuts: ClassVar[bool] = False
    keeps_count: ClassVar[bool] = False

    @property
    def carries(self) -> bool:
        """Whether its next pass depends on how far this one came."""
        return False

    def count(self, items: int) -> int | None:
        """How many items come out when so many go in; None if that is not known."""
        return items if self.keeps_count else None

    @abstractmethod
    def start(self, during: Pass) -> Progress:
        """The empty progress of a pass.

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
        """Make the item that was yielded with this origin once more, out of what stood before this stage.

        A stage that yields what it takes, in whatever order, has nothing to add; one that makes new items, such as
        batches, says how.
        """
        return recall(origin)

    def __call__(self, items: Iterable[Any] = (), /) -> Iterator[Any]:
        """Run alone, outside a pipeline."""
        return self.run(iter(items), self.start(Pass()))


class Source(Resumable):
    """A resumable stage whose items have origins that it can read again.

    One that reads this process's part of a computed order says of what: `planned` is "samples" or "batches".
    """

    planned: ClassVar[str | None] = None

    @abstractmethod
    def recall(self, origin: Json) -> Any:
        """Read the item of this origin again."""

    def again(self, origin: Json, recall: Recall) -> Any:
        """A source reads it; there is nothing before it."""
        return self.recall(origin)
