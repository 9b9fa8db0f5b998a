"""What a dataset can do when it starts with a plan: know its length, go to any step, tell what a step holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from webdataset import stages, world
from webdataset.errors import SpecError
from webdataset.flow import Json, Pass
from webdataset.index import SampleLocation
from webdataset.order import Remaining, Steps
from webdataset.plan import (
    ReadPlanned,
    ShuffleReport,
    batch_behind,
    is_even_chain,
    items_behind,
    shuffle_report,
)

from ._index_options import window_for
from ._pipeline import ENDLESS, DataPipeline


class Plannable(DataPipeline):
    """A pipeline whose first stage may be a plan; what needs one says so where there is none."""

    @property
    def plan(self) -> ReadPlanned | None:
        """The first stage, if it reads by an index."""
        first = self.pipeline[0] if self.pipeline else None
        return first if isinstance(first, ReadPlanned) else None

    def append(self, stage: Any) -> None:
        """Add a stage to this very pipeline; the first `batched` decides what a step of the plan is."""
        super().append(stage)
        if self.plan is not None:
            self.pipeline[0] = replace(self.plan, batch=batch_behind(self.pipeline[1:]))

    def shuffle(self, size: int, *, buffer: bool = False, **kw: Any) -> Self:
        """Shuffle; below 1 the order stays as it is.

        Right behind indexed shards no buffer is needed: so many shards are mixed at a time that at least `size` samples
        are, and all shards if they have no more. `buffer=True`, or a generator or seed of its own, insists on a buffer.

        Args:
            size: how many samples are mixed.
            buffer: mix what was read, not the plan.
            kw: what `wds.shuffle` takes.
        """
        size = stages.shuffle(size, **kw).bufsize
        if size < 1:
            return self
        if self.plan is None or len(self.pipeline) > 1 or buffer or kw.keys() - {"initial"}:
            return super().shuffle(size, **kw)  # type: ignore[misc, no-any-return]  # of the fluid interface
        result = self._copy()
        wider = window_for(self.plan.dataset.counts, size)
        if self.plan.window is not None and self.plan.chunk is None:
            wider = None if wider is None else max(wider, self.plan.window)
            result.pipeline[0] = replace(self.plan, window=wider)
        return result

    def __len__(self) -> int:
        if self.size is not None or self.plan is None:
            return super().__len__()
        if self.nsamples > 0:
            return self.nsamples
        if self.repetitions >= ENDLESS:
            raise TypeError("the dataset repeats for ever; declare a length with .with_length(n)")
        plan, ranks = self.plan, world.current().ranks
        samples = len(plan.dataset)
        if ranks > 1:
            samples = plan.batch * len(Steps(samples, plan.batch, ranks, last=plan.last or "pad"))
        items = items_behind(self.pipeline[1:], samples)
        if items is None:
            raise TypeError(
                "a stage may leave samples out, so the length is not known; declare it with .with_length(n)"
            )
        return items * self.repetitions

    def seek(self, step: int) -> None:
        """Let the next `iter()` begin with this step of its epoch, which counts from 0 on all ranks.

        Nothing before it is read. A step is one batch on every rank.
        """
        self._resume_from = self.place_without(range(step), self._resume_from)
        self._stream = None

    def skip(self, steps: range) -> None:
        """Let the next `iter()` leave out these steps of its epoch, on all ranks; more calls leave out more."""
        self._resume_from = self.place_without(steps, self._resume_from)
        self._stream = None

    def place_without(self, steps: range, place: Json = None) -> dict[str, Json]:
        """The place from which an epoch goes on without these steps.

        Args:
            steps: a range without gaps.
            place: where the epoch would go on; None for the beginning of the next.
        """
        plan = self._planned_steps()
        samples, per_step = len(plan.dataset), plan.batch * world.current().ranks
        if steps.step != 1 or not 0 <= steps.start <= steps.stop <= -(-samples // per_step):
            raise SpecError(
                f"{steps} is no range of the {-(-samples // per_step)} steps of an epoch",
                hint="steps count from 0 in every epoch; call it more than once for several ranges",
            )
        place = place or {"epoch": self.epochs.peek(), "passes": 0, "pass": None, "in_epoch": 0}
        rest = Remaining(samples)
        if place["pass"] is not None:
            if "readers" in place["pass"]["plan"]:
                raise SpecError(
                    "the checkpoint is that of one rank", hint="join those of all with wds.merge_states first"
                )
            rest = Remaining.load(place["pass"]["plan"]["rest"], samples)
        rest = rest.without(steps.start * per_step, steps.stop * per_step)
        return {**place, "pass": {"plan": {"rest": rest.save()}}}

    def where(self, step: int, epoch: int | None = None) -> list[SampleLocation]:
        """The samples of a step, rank by rank: shard, key and byte ranges of each; no data are read.

        Args:
            step: counts from 0 in the epoch; a step is one batch on every rank.
            epoch: by default the one that is being read, or the next one.
        """
        plan = self._planned_steps()
        if epoch is None:
            epoch = self._stream.pass_number if self._stream is not None else self._next_epoch()
        order = plan.order(Pass(self.seed, epoch))
        per_step = plan.batch * world.current().ranks
        positions = np.arange(step * per_step, min((step + 1) * per_step, len(order)))
        if step < 0 or not len(positions):
            raise IndexError(f"step {step} is not in an epoch of {-(-len(order) // per_step)} steps")
        starts = np.concatenate(([0], np.cumsum(plan.dataset.counts, dtype=np.int64)))
        which, numbers = order.locate(positions)
        return [plan.dataset.where(int(number)) for number in starts[which] + numbers]

    def shuffle_report(self, *, buffer: int = 1000, plot: str | None = None) -> ShuffleReport:
        """How well this dataset's order mixes, beside a shuffle buffer; `print` it.

        Args:
            buffer: the size of the buffer to compare with.
            plot: a file to draw it into (SVG).
        """
        plan = self._planned_steps()
        order = plan.order(Pass(self.seed, self._next_epoch()))
        report = shuffle_report(order, buffer=buffer)
        if plot is not None:
            from webdataset import stores

            with stores.open_write(plot) as stream:
                stream.write(report.svg().encode())
        return report

    def _next_epoch(self) -> int:
        return int(self._resume_from["epoch"]) if self._resume_from is not None else self.epochs.peek()

    def _planned_steps(self) -> ReadPlanned:
        if self.plan is None or not is_even_chain(self.pipeline):
            raise SpecError(
                "this dataset has no steps that could be counted",
                hint="index the shards, and put only functions of one sample and one batched() behind them",
            )
        return self.plan
