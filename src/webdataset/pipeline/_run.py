"""`Run`: one iteration over a pipeline, pass after pass, with a cursor that can be saved.

A run refers to the stages, never to the pipeline, and nothing that it refers to refers to a generator. So there are no
reference cycles: when a user drops an iteration, its files, threads and processes are closed at once and not in some
later garbage collection. Runs that are open when the program ends are closed before Python unloads the modules.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

from webdataset import world
from webdataset.child_processes import end_with_loader
from webdataset.errors import StateError
from webdataset.flow import Json, Pass
from webdataset.redact import scrub

from ._cursor import Cursor, beginning
from ._running_pass import RunningPass, RunOptions

if TYPE_CHECKING:
    from ._source_choice import Shares


@dataclass(frozen=True)
class Definition:
    """What a run needs of a pipeline: stages, seed, how many passes, items in an epoch (any number if not positive)."""

    stages: Sequence[Any]
    seed: int
    repetitions: int = 1
    epoch_size: int = -1
    shares: Sequence[Shares] = ()  # of the mixes inside
    repeatable: bool = True  # a pass that is run again has the same order

    def start_pass(self, epoch: int, where: Any = None, options: Any = None, before: Any = None) -> RunningPass:
        """Start the pass number `epoch`, from its beginning or from `where`."""
        if world.torch_worker() is not None:
            end_with_loader()
        return RunningPass(self.stages, Pass(self.seed, epoch, world.current()), where, options, before)


class Run:
    """An iteration over one or more passes.

    >>> run = Run(Definition([[1, 2]], seed=0, repetitions=2, epoch_size=3), Cursor(epoch=0))
    >>> list(run.epoch()), list(run.epoch())
    ([1, 2, 1], [2])

    Args:
        definition: the stages, the seed and the number of passes.
        cursor: where to start.
        options: how a loader runs the stages.
        on_pass: called with the number of every later pass when it begins.
        before: the run whose last pass came before the first pass of this one.
    """

    def __init__(
        self,
        definition: Definition,
        cursor: Cursor,
        options: RunOptions | None = None,
        on_pass: Callable[[int], None] | None = None,
        before: Run | None = None,
    ) -> None:
        cursor.check_world(world.current())
        self._definition, self._options, self._on_pass = definition, options, on_pass
        self._passes, self._position, self._skip = cursor.passes, cursor.position, cursor.skip
        self._resumed = not cursor.is_beginning  # in the middle of a pass, which is not empty if no items are left
        self.begun = False  # whether `epoch` was called and iterated
        self.ended = False  # whether the epoch has ended after its last item, not by an error
        self.over = False  # whether there are no more items: all passes are complete, or there was an error
        self.is_closed = False  # whether the stages are closed; this does not change where the next epoch begins
        for shares, weights in zip(definition.shares, cursor.weights or repeat(None), strict=False):
            if self._skip:  # items are read again that may have been drawn with other weights
                shares.replay(self, weights)
        self._certain_weights = self.weights
        last = before._pass if before is not None else None
        self._pass: RunningPass = definition.start_pass(cursor.epoch, cursor.where, options, last)
        _runs.add(self)

    def epoch(self) -> Iterator[Any]:
        """The items of the next epoch, or the rest of the one that was begun; an empty pass is the last."""
        self.begun = True
        if self.ended:
            self.new_epoch()
        size = self._definition.epoch_size
        try:
            while self.can_go_on and not self._is_full:
                this = self._pass
                # No call from here to the `yield`: Ctrl-C comes when a call ends, and would lose the item.
                for item in this.items:
                    this.yielded += 1
                    if self._skip:
                        self._skip -= 1
                    else:
                        self._position += 1
                        yield (item, item := None)[0]  # no variable keeps a batch alive that the user has dropped
                    if self._position == size and not self._skip:
                        break
                if not self._is_full and not self.is_closed:
                    self._end_pass()
        except GeneratorExit:
            raise
        except BaseException as error:
            self.over = True
            # If the error was raised in this frame, no stage was running.
            inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            self._pass.interrupted = inside and not isinstance(error, Exception)
            scrub(error)  # the text of any error may contain an address, also that of a stage of the user
            raise
        self.ended = True

    @property
    def can_go_on(self) -> bool:
        """Whether this run has more items, in this epoch or in the next one."""
        return not self.over and not self.is_closed

    @property
    def _is_full(self) -> bool:
        return 0 < self._definition.epoch_size <= self._position and not self._skip

    def new_epoch(self) -> None:
        """Make the next item the first of a new epoch, even if this one was left early."""
        self.ended, self._position = False, 0

    def _end_pass(self) -> None:
        empty, self._resumed = not self._resumed and not self._pass.yielded, False
        if empty or self._passes + 1 >= self._definition.repetitions:
            self.over = True
            return
        epoch = self._pass.during.epoch + 1
        if self._on_pass is not None:
            self._on_pass(epoch)
        following = self._definition.start_pass(epoch, None, self._options, self._pass)
        self._certain_weights = self.weights
        self._pass, self._passes = following, self._passes + 1  # together, in case that Ctrl-C comes

    @property
    def weights(self) -> tuple[Sequence[float] | None, ...]:
        """The weights that were set, of each mix inside."""
        return tuple([shares.in_use() for shares in self._definition.shares])

    @property
    def is_replaying(self) -> bool:
        """Whether items are being read again that were yielded already."""
        return self._skip > 0 and self.can_go_on

    @property
    def is_repeatable(self) -> bool:
        """Whether items that were yielded come again in the same order, judged by the stages."""
        return self._definition.repeatable

    def cursor(self) -> Cursor:
        """Return the cursor after the item that was yielded last."""
        where, skip = self._pass.where()
        if skip and not self.is_repeatable:
            raise StateError(
                "torch draws the order of a loader with shuffle=True or a sampler, and draws another one on resume",
                hint="save between epochs, or let the dataset shuffle: WebDataset(…, index=True, order='random')",
            )
        if not skip:
            self._certain_weights = self.weights
        elif self._certain_weights != self.weights:
            raise StateError(
                "set_weights was called, and what this pipeline yielded before can only be read again as it was",
                hint="save at the end of the epoch; or give mix a schedule=, which can be read again",
            )
        position = self._position if self._definition.epoch_size > 0 else 0
        weights = self.weights if any(self.weights) else ()
        cursor = Cursor(self._pass.during.epoch, self._passes, position, where, skip + self._skip, weights=weights)
        return cursor.for_world(world.current())

    def next_cursor(self, *, goes_on: bool) -> Cursor:
        """Return the cursor of the next epoch, which continues this one if `goes_on`."""
        if goes_on and not self.over:
            return self.cursor().next_epoch()
        return self.beginning(self._pass.during.epoch + 1)

    def beginning(self, epoch: int) -> Cursor:
        """Return the cursor at the beginning of a later pass."""
        return Cursor(epoch, where=beginning(self._read_again()._pass.next_starts()))

    def _read_again(self) -> Run:
        """Return this run; or, if it ended before it had skipped all its items, a copy that has: for its progress."""
        if not self._skip:
            return self
        where, skip = self._pass.where()
        cursor = Cursor(self.pass_number, where=where, skip=skip + self._skip, weights=self._certain_weights)
        again = Run(self._definition, cursor)
        for _ in islice(again._pass.items, again._skip):
            pass
        again.close()
        return again

    @property
    def origin(self) -> Json:
        """The pass of the item that was yielded last, and its origin in that pass; None if that is not known."""
        origin = self._pass.origin
        return None if origin is None else {"epoch": self._pass.during.epoch, "item": origin}

    @property
    def pass_number(self) -> int:
        """The number of the pass that is being read."""
        return self._pass.during.epoch

    def close(self) -> None:
        """Close what the current pass has open."""
        self.is_closed = True
        self._pass.close()


_runs: weakref.WeakSet[Run] = weakref.WeakSet()
os.register_at_fork(after_in_child=_runs.clear)  # the runs belong to the parent


@atexit.register
def _close_runs() -> None:
    for run in list(_runs):
        with suppress(Exception):  # for example, another thread is iterating it
            run.close()
