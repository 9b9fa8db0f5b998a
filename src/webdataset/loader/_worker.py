"""The part of the loader that runs in a worker process: it packs the items of the dataset, each with its state."""

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

_COUNTS_EVERY = 0.02  # seconds between two messages with counts: sent with every small item, they would cost more


@dataclass(slots=True)
class Message:
    """A message of a worker: an item with its state, or a failure, or neither; and the counts since the last one."""

    worker: int
    content: Transfer | Unpacked | None = None
    tag: Tagged | None = None
    failure: Failure | None = None
    next_start: Cursor | None = None  # where the worker's next epoch begins; sent at the end of this one
    counted: dict[str, tuple[int, float]] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)
    skipped: Skipped | None = None
    is_last: bool = False  # the last message of its worker in this epoch

    @property
    def size(self) -> int:
        """How many bytes are sent."""
        return self.content.size if isinstance(self.content, Transfer) else 0

    def pin_memory(self) -> Any:
        """Pin the item; torch's pinning thread calls this where there is a device to copy to."""
        if self.content is not None:
            self.content = Unpacked(pinned(self.content.unpack()))
        return self


@dataclass(slots=True)
class Unpacked:
    """A value in this process, with the interface of `Transfer`."""

    value: Any

    def unpack(self) -> Any:
        """Return the value and forget it."""
        value, self.value = self.value, None
        return value


class Failure:
    """An exception of a worker, with the traceback that it had there as a note."""

    def __init__(self, error: Exception, worker: int) -> None:
        text = "".join(traceback.format_exception(error)).rstrip()
        error.add_note(f"in worker process {worker}:\n{text}")
        try:
            self._pickled = pickle.dumps(error)
            pickle.loads(self._pickled)  # noqa: S301  # our own bytes; some exceptions can be pickled but not unpickled
        except Exception:
            self._pickled = pickle.dumps(StageError(f"{type(error).__name__} in worker process {worker}:\n{text}"))

    def raise_again(self) -> None:
        """Raise the exception in this process."""
        raise pickle.loads(self._pickled)  # noqa: S301  # our own bytes


@dataclass(eq=False)
class WorkerDataset(SpawnPickling, TorchIterable):
    """The dataset as torch's workers read it: its items, packed, each with its state.

    Args:
        dataset: the dataset to read.
        convert: applied to every item or batch.
        start: where each worker begins the first epoch, if not at the beginning of a pass.
        block_count: how many blocks of shared memory a worker keeps for its batches; with 0 they go through the pipe.
        watched: time every single stage.
        origins: send the origin of every item.
        group_size: how many messages are sent at once.
        next_pass: the number of the next pass; written by the loader, read by the workers.
        continuing_pass: the pass in which datasets inside this one go on from where the pass before ended; 0 if none.
    """

    dataset: DataPipeline
    convert: Callable[[Any], Any]
    start: list[Cursor] | None = None
    block_count: int = 0
    watched: bool = False
    origins: bool = False
    group_size: GroupSize = field(default_factory=GroupSize)
    next_pass: EpochCounter = field(default_factory=EpochCounter)
    continuing_pass: EpochCounter = field(default_factory=EpochCounter)
    _blocks: Blocks | None = field(default=None, repr=False)
    _run: Run | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[list[Message]]:
        """Yield the messages of this worker for one epoch, in groups."""
        group: list[Message] = []
        began = time.perf_counter()
        for message in self._packed_messages(world.torch_worker().id):
            group.append(message)
            # Items that have become slow do not wait for a full group: torch's timeout= would report a dead worker.
            is_late = time.perf_counter() - began > LONGEST
            if len(group) >= int(self.group_size) or message.is_last or is_late:
                yield group
                group, began = [], time.perf_counter()

    def _packed_messages(self, worker: int) -> Iterator[Message]:
        if self._blocks is None and self.block_count:
            self._blocks = Blocks(self.block_count)
            if _leaves_batches_unchanged(self.dataset):
                batch_memory.use_for_batches(self._blocks.allocate)
        before, log = counters.snapshot(), SkipLog()
        try:
            _check_worker_number()
            for message in self.messages(worker):
                if self._blocks is not None:
                    # The blocks of all batches of a group are in use at the same time.
                    self._blocks.keep = self.block_count * int(self.group_size)
                self._pack(message)
                now = counters.snapshot()
                message.moved, before = growth(before, now), now
                message.skipped = log.take()
                yield message
            # A store counts the bytes of a stream when the stream is closed, after the last item.
            yield Message(worker, moved=counters.since(before), skipped=log.take(), is_last=True)
        except Exception as error:
            yield Message(worker, failure=Failure(error, worker), is_last=True)

    def _pack(self, message: Message) -> None:
        began = time.perf_counter()
        message.content = pack(message.content.unpack(), self._blocks) if message.content is not None else None
        spent = time.perf_counter() - began
        message.counted["packing"] = (1, spent)

    def messages(self, worker: int) -> Iterator[Message]:
        """Yield the items of one epoch, each with its state and the counts since the one before, not packed yet."""
        meter = Meter()
        run = self._run = self._next_run(worker, meter)
        for tag in timed(tagged(run, origins=self.origins), meter, "busy"):
            came = time.perf_counter()
            item = Unpacked(self.convert(tag.item))
            counted = meter.take() if meter.elapsed > _COUNTS_EVERY else {}
            ready = time.perf_counter()
            yield Message(worker, item, tag._replace(item=None), counted=counted)
            meter.add("busy", ready - came, count=0)
            meter.add("idle", time.perf_counter() - ready)
        yield Message(worker, next_start=_next_start(run, goes_on=self.dataset.continues), counted=meter.take())

    def _next_run(self, worker: int, meter: Meter) -> Run:
        """Return the run that yields the epoch: the last one where epochs continue, otherwise a new one."""
        start: Any = self.start
        self.start, before = None, self._run
        if start is None and before is not None and self.dataset.continues:
            if before.can_go_on:
                before.new_epoch()
                return before
            start = {worker: _next_start(before, goes_on=True)}  # a pass without items was the last of its epoch
        cursor = Cursor(self.next_pass.peek()) if start is None else start[worker]
        options = RunOptions(timer=StageTimer(meter)) if self.watched else RunOptions()
        # Not after an epoch that was left early: what this worker had prefetched then must not change the next one.
        follows = before is not None and start is None and self.continuing_pass.peek() == cursor.epoch
        return self.dataset.run(cursor, options, before if follows else None)


def _check_worker_number() -> None:
    """Refuse a worker number other than torch's: this process would read the part of another worker of its loader."""
    here, worker = world.current(), world.torch_worker()
    if worker.num_workers > 1 and (here.worker, here.workers) != (worker.id, worker.num_workers):
        raise SpecError(
            f"worker process {worker.id} of {worker.num_workers} has the number {here.worker} of {here.workers}",
            hint="unset WORKER and NUM_WORKERS, or world.pretend, for a loader with several worker processes",
        )


def _next_start(run: Run, *, goes_on: bool) -> Cursor:
    try:
        return run.next_cursor(goes_on=goes_on)
    except StateError:  # without a cursor, workers that are started anew begin the next epoch with a new pass
        return Cursor(run.pass_number + 1)


def _leaves_batches_unchanged(dataset: DataPipeline) -> bool:
    """Whether no stage changes a batch that it has yielded; a generator of the user may."""

    def copies(stage: Any) -> bool:
        if isinstance(stage, ArrayBatches):
            return True
        return isinstance(stage, (Batched, Bucketed)) and stage.collation_fn is not None

    stages = list(dropwhile(lambda stage: not copies(stage), dataset.pipeline))
    return bool(stages) and all(isinstance(stage, (PerItem, Resumable)) for stage in stages)
