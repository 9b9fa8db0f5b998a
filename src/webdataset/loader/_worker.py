"""The part of the loader that runs in a worker process: the items of the dataset, packed, each with its state."""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Any

from webdataset import batch_memory, world
from webdataset.errors import SpecError, StageError, StateError
from webdataset.flow import PerItem, Resumable
from webdataset.handlers import SkipLog, Skipped
from webdataset.pipeline import Cursor, DataPipeline, EpochCounter, Run, RunOptions, SpawnPickling, TorchIterable
from webdataset.plan import ArrayBatches
from webdataset.stages import Batched, Bucketed
from webdataset.stores import counters, growth

from ._item_state import Tagged, tagged
from ._message_groups import LONGEST, GroupSize
from ._meter import Meter, StageTimer, timed
from ._pin_memory import pinned
from ._shared_memory import Blocks
from ._transfer import Transfer, pack

_COUNTED_SECONDS = 0.02  # what is counted travels once in this time: for every small item it would cost more than that


@dataclass(slots=True)
class Message:
    """A message of a worker: an item with its state, or a failure, or neither; and what was counted meanwhile."""

    worker: int
    content: Transfer | Unpacked | None = None
    tag: Tagged | None = None
    failure: Failure | None = None
    next_start: Cursor | None = None  # of the worker's next epoch, when it came to the end of this one
    counted: dict[str, tuple[int, float]] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)
    skipped: Skipped | None = None
    is_last: bool = False  # of its worker, in this epoch

    @property
    def size(self) -> int:
        """How many bytes travel."""
        return self.content.size if isinstance(self.content, Transfer) else 0

    def pin_memory(self) -> Any:
        """Called by torch's pinning thread where there is a device to copy to."""
        if self.content is not None:
            self.content = Unpacked(pinned(self.content.unpack()))
        return self


@dataclass(slots=True)
class Unpacked:
    """A value that does not travel."""

    value: Any

    def unpack(self) -> Any:
        """The value, once."""
        value, self.value = self.value, None
        return value


class Failure:
    """An exception of a worker, as it was, with the traceback that it had there."""

    def __init__(self, error: Exception, worker: int) -> None:
        text = "".join(traceback.format_exception(error)).rstrip()
        error.add_note(f"in worker process {worker}:\n{text}")
        try:
            self._pickled = pickle.dumps(error)
            pickle.loads(self._pickled)  # noqa: S301  # our own: some exceptions can be pickled and not unpickled
        except Exception:
            self._pickled = pickle.dumps(StageError(f"{type(error).__name__} in worker process {worker}:\n{text}"))

    def raise_again(self) -> None:
        """Raise it here."""
        raise pickle.loads(self._pickled)  # noqa: S301  # our own


@dataclass(eq=False)
class WorkerDataset(SpawnPickling, TorchIterable):
    """What torch gives to its workers instead of the dataset: its items, packed, each with its state.

    Args:
        dataset: what is read.
        convert: what becomes of every item or batch.
        start: where each worker begins the first epoch, if not at the beginning of a pass.
        blocks: how many blocks of shared memory a worker keeps for its batches; with none they travel through the pipe.
        watched: time every single stage.
        origins: send the origin of every item.
        together: how many messages travel together.
        told: the number of the next pass; written by the loader, read by the workers.
        told_to_follow: the pass in which what is inside the dataset goes on from where the one before ended; 0 if none.
    """

    dataset: DataPipeline
    convert: Callable[[Any], Any]
    start: list[Cursor] | None = None
    blocks: int = 0
    watched: bool = False
    origins: bool = False
    together: GroupSize = field(default_factory=GroupSize)
    told: EpochCounter = field(default_factory=EpochCounter)
    told_to_follow: EpochCounter = field(default_factory=EpochCounter)
    _blocks: Blocks | None = field(default=None, repr=False)
    _run: Run | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[list[Message]]:
        """The messages of this worker, for one epoch, in groups."""
        group: list[Message] = []
        began = time.perf_counter()
        for message in self._packed_messages(world.torch_worker().id):
            group.append(message)
            # Items that have become slow do not wait for a whole group: the loader would take the worker for dead.
            waits = time.perf_counter() - began > LONGEST
            if len(group) >= int(self.together) or message.is_last or waits:
                yield group
                group, began = [], time.perf_counter()

    def _packed_messages(self, here: int) -> Iterator[Message]:
        if self._blocks is None and self.blocks:
            self._blocks = Blocks(self.blocks)
            if _lets_go(self.dataset):
                batch_memory.use_for_batches(self._blocks.allocate)
        before, log = counters.snapshot(), SkipLog()
        try:
            _check_part()
            for message in self.messages(here):
                if self._blocks is not None:
                    self._blocks.keep = self.blocks * int(self.together)  # all of a group are in use at the same time
                self._pack(message)
                now = counters.snapshot()
                message.moved, before = growth(before, now), now
                message.skipped = log.take()
                yield message
            # Stores count what a stream moved when it is closed, after the last item.
            yield Message(here, moved=counters.since(before), skipped=log.take(), is_last=True)
        except Exception as error:
            yield Message(here, failure=Failure(error, here), is_last=True)

    def _pack(self, message: Message) -> None:
        began = time.perf_counter()
        message.content = pack(message.content.unpack(), self._blocks) if message.content is not None else None
        spent = time.perf_counter() - began
        message.counted["packing"] = (1, spent)

    def messages(self, here: int) -> Iterator[Message]:
        """The items of one epoch, each with its state and what was counted since the one before; not packed yet."""
        meter = Meter()
        run = self._run = self._next_run(here, meter)
        for tag in timed(tagged(run, origins=self.origins), meter, "busy"):
            came = time.perf_counter()
            item = Unpacked(self.convert(tag.item))
            counted = meter.take() if meter.elapsed > _COUNTED_SECONDS else {}
            ready = time.perf_counter()
            yield Message(here, item, tag._replace(item=None), counted=counted)
            meter.add("busy", ready - came, count=0)
            meter.add("idle", time.perf_counter() - ready)
        yield Message(here, next_start=_next_start(run, goes_on=self.dataset.continues), counted=meter.take())

    def _next_run(self, here: int, meter: Meter) -> Run:
        """The iteration that the epoch comes from: as told, or, where epochs continue, the one before."""
        start, self.start, before = self.start, None, self._run
        if start is None and before is not None and before.can_go_on and self.dataset.continues:
            before.new_epoch()
            return before
        cursor = Cursor(self.told.peek()) if start is None else start[here]
        options = RunOptions(timer=StageTimer(meter)) if self.watched else RunOptions()
        # What was read ahead in an epoch that was left must not change the next one.
        follows = before is not None and start is None and self.told_to_follow.peek() == cursor.epoch
        return self.dataset.run(cursor, options, before if follows else None)


def _check_part() -> None:
    """Refuse to read the part of another worker of the same loader."""
    mine, worker = world.current(), world.torch_worker()
    if worker.num_workers > 1 and (mine.worker, mine.workers) != (worker.id, worker.num_workers):
        raise SpecError(
            f"worker process {worker.id} of {worker.num_workers} was told to be worker {mine.worker} of {mine.workers}",
            hint="unset WORKER and NUM_WORKERS, or world.pretend, for a loader with several worker processes",
        )


def _next_start(run: Run, *, goes_on: bool) -> Cursor:
    try:
        return run.next_cursor(goes_on=goes_on)
    except StateError:  # then the next epoch of workers that are started anew begins with a new pass
        return Cursor(run.pass_number + 1)


def _lets_go(dataset: DataPipeline) -> bool:
    """Whether a batch stays as it is once it has been yielded: a generator of the user's may go on to change it."""

    def copies(stage: Any) -> bool:
        if isinstance(stage, ArrayBatches):
            return True
        return isinstance(stage, (Batched, Bucketed)) and stage.collation_fn is not None

    stages = list(dropwhile(lambda stage: not copies(stage), dataset.pipeline))
    return bool(stages) and all(isinstance(stage, (PerItem, Resumable)) for stage in stages)
