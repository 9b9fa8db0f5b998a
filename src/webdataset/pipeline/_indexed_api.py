"""What a dataset that starts with a plan can do: give its length, go to any step, list the samples of a step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack

from webdataset import stages, world
from webdataset.arguments import is_integer
from webdataset.describe import shown
from webdataset.errors import SpecError
from webdataset.flow import Pass, PerItem
from webdataset.handlers import reraise_exception
from webdataset.plan import is_even_chain, plan_of, replaces, step_size

from ._cursor import Cursor, InPlan
from ._index_options import window_for
from ._pipeline import DataPipeline

if TYPE_CHECKING:
    from webdataset.index import SampleLocation
    from webdataset.plan import ReadPlanned, ShuffleReport


class Plannable(DataPipeline):
    """A pipeline whose first stage may be a plan; methods that need a plan raise an error if there is none."""

    @property
    def plan(self) -> ReadPlanned | None:
        """The first stage, if it reads by an index."""
        return plan_of(self.pipeline)

    def append(self, stage: Any) -> None:
        """Add a stage to this pipeline in place; the first `batched` decides how many samples a step has."""
        super().append(stage)
        if self.plan is not None:
            self.pipeline[0] = replace(self.plan, batch=step_size(self.pipeline[1:]))
            if self.plan.replaces and not is_even_chain(self.pipeline):
                raise SpecError(
                    f"failed='replace' does not go with the stage {shown(stage):.60}",
                    hint="use functions of one sample and one batched(), and put other stages after a loader",
                )

    def shuffle(self, size: int, *, buffer: bool = False, **kw: Unpack[stages.ShuffleOptions]) -> Self:
        """Shuffle; below 1 the order stays as it is.

        Right after indexed shards no buffer is needed: as many shards are mixed at a time as have at least `size`
        samples together, or all shards. `buffer=True`, or a generator or seed of its own, uses a buffer nevertheless.

        Args:
            size: how many samples are mixed.
            buffer: shuffle the samples in a buffer, instead of changing the plan.
            kw: arguments of `wds.shuffle`.
        """
        stage = stages.shuffle(size, **kw)
        if stage.bufsize < 1:
            return self
        if self.plan is None or len(self.pipeline) > 1 or buffer or kw.keys() - {"initial"}:
            return self.compose(stage)
        result = self._copy()
        wider = window_for(self.plan.dataset.counts, stage.bufsize)
        if self.plan.window is not None and self.plan.chunk is None:
            wider = None if wider is None else max(wider, self.plan.window)
            result.pipeline[0] = replace(self.plan, window=wider)
        return result

    def _source_items(self) -> int | None:
        """Return how many samples this rank has in an epoch, padding included."""
        plan, ranks = self.plan, world.current().ranks
        if plan is None:
            return super()._source_items()
        if plan.handler is not reraise_exception and not plan.replaces:  # it may leave samples out
            return None
        samples = len(plan.dataset)
        from webdataset.order import Steps

        return samples if ranks == 1 else plan.batch * len(Steps(samples, plan.batch, ranks, last=plan.last or "pad"))

    def _counting_stages(self) -> list[Any]:
        stages = super()._counting_stages()
        return [stage for stage in stages if not isinstance(stage, PerItem)] if replaces(self.pipeline) else stages

    @property
    def _sizes_epochs(self) -> bool:
        return self.plan is not None

    def seek(self, step: int) -> None:
        """Let the next `iter()` begin with this step of its epoch, which counts from 0 on all ranks.

        Nothing before it is read. A step is one batch on every rank.
        """
        self.skip(range(step))

    def skip(self, steps: int | range) -> None:
        """Let the next `iter()` leave out a step of its epoch, or a range, on all ranks; more calls leave out more."""
        self._move_start(self.cursor_without(steps, self._next_start()))

    def cursor_without(self, steps: int | range, cursor: Cursor) -> Cursor:
        """Return the cursor of an epoch without these steps.

        Args:
            steps: one step, or a range without gaps.
            cursor: where the epoch would go on otherwise.
        """
        from webdataset.order import Remaining
        from webdataset.plan import PlanState

        plan = self._planned_steps()
        steps = range(int(steps), int(steps) + 1) if is_integer(steps) else steps
        samples, per_step = len(plan.dataset), plan.batch * world.current().ranks
        last = -(-samples // per_step)
        if not isinstance(steps, range) or steps.step != 1 or not 0 <= steps.start <= steps.stop <= last:
            raise SpecError(
                f"expected steps from 0 to {last} without gaps, got {steps}", hint="range(40, 43) are three steps"
            )
        state = (cursor.plan or PlanState(Remaining(samples))).as_remaining()
        if state.readers:
            raise SpecError(
                "the checkpoint is of one rank only", hint="join the checkpoints of all ranks with wds.merge_states"
            )
        state.remaining.check_samples(samples)
        remaining = state.remaining.without(steps.start * per_step, steps.stop * per_step)
        return replace(cursor, where=InPlan(PlanState(remaining)))

    def samples_of_step(self, step: int, epoch: int | None = None) -> list[SampleLocation]:
        """The samples of a step, rank by rank: shard, key and byte ranges of each; no data are read.

        Args:
            step: counts from 0 in the epoch; a step is one batch on every rank.
            epoch: by default the one that is being read, or the next one.
        """
        import numpy as np

        from webdataset.order import starts_of

        plan = self._planned_steps()
        if epoch is None:
            epoch = self._run.pass_number if self._run is not None else self._next_start().epoch
        order = plan.order(Pass(self.seed, epoch))
        per_step = plan.batch * world.current().ranks
        positions = np.arange(step * per_step, min((step + 1) * per_step, len(order)))
        if step < 0 or not len(positions):
            raise IndexError(f"expected a step from 0 to {-(-len(order) // per_step) - 1}, got {step}")
        starts = starts_of(plan.dataset.counts)
        which, numbers = order.locate(positions)
        return [plan.dataset.where(int(number)) for number in starts[which] + numbers]

    def shuffle_report(self, *, buffer: int = 1000, plot: str | None = None) -> ShuffleReport:
        """Return how well this dataset's order mixes, compared with a shuffle buffer; `print` the result.

        Args:
            buffer: the size of the buffer to compare with.
            plot: a file to draw it into (SVG).
        """
        from webdataset.plan import shuffle_report

        plan = self._planned_steps()
        order = plan.order(Pass(self.seed, self._next_start().epoch))
        report = shuffle_report(order, buffer=buffer)
        if plot is not None:
            from webdataset import stores

            stores.write_bytes(plot, report.svg().encode())
        return report

    def _planned_steps(self) -> ReadPlanned:
        if self.plan is None or not is_even_chain(self.pipeline):
            raise SpecError(
                "seek, skip and samples_of_step need an indexed dataset",
                hint="index the shards, and put only functions of one sample and one batched() after them",
            )
        return self.plan
