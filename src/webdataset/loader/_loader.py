"""`WebLoader`: a dataset read by worker processes or threads, as the first stage of a pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from webdataset.arguments import require_choice, require_count
from webdataset.child_processes import Parent
from webdataset.describe import identifies, refuse_unknown, shown
from webdataset.errors import MissingDependency, SpecError, StateError
from webdataset.flow import Json, Pass, Resumable
from webdataset.index import SampleLocation
from webdataset.pipeline import Checkpoint, Cursor, DataPipeline, FluidInterface, InStages, Plannable
from webdataset.plan import ArrayBatches
from webdataset.redact import warn

from ._device import Device, OnDevice
from ._move_batching import as_it_is, batch_inside, converted, default_batch_size, makes_batches
from ._threads import Threads

if TYPE_CHECKING:
    from ._stats import Stats

USUAL: Any = object()  # a batch size that was not given
_ORDERS = ("shuffle", "sampler", "batch_sampler")  # settings of torch's loader
_THREAD_OPTIONS = (
    "threads take num_workers, prefetch_factor, memory, pin_memory, device, collate_fn and drop_last; "
    "other arguments of DataLoader need workers='processes'"
)


class WebLoader(DataPipeline, FluidInterface):
    """A dataset read in the background, with the methods of the fluid interface for what comes after.

    >>> from webdataset import DataPipeline
    >>> dataset = DataPipeline(range(6))
    >>> [batch.tolist() for batch in WebLoader(dataset, batch_size=2)]
    [[0, 1], [2, 3], [4, 5]]
    >>> list(WebLoader(dataset, batch_size=None, num_workers=2, workers="threads"))
    [0, 1, 2, 3, 4, 5]

    With `workers="processes"` the arguments are those of `torch.utils.data.DataLoader`. Batch in the dataset
    (`.batched(64)`) and pass `batch_size=None`: then the workers send whole batches, and the arrays of a batch are in
    one block of shared memory.

    With `workers="threads"` the functions of one sample that follow each other (`decode`, `map`, `to_tuple`, …) run on
    `num_workers` threads, and everything else in one more thread, which prefetches. The items are the same for every
    number of threads, and the same as from processes. torch is not needed; where it is installed, arrays become
    tensors and tuples lists, as in its `DataLoader`, unless `collate_fn=` is given (docs/decisions/0013-same-items.md).

    Either way `state_dict()` is the position after the last item delivered.

    Over indexed shards (docs/explanation/order.md) a checkpoint is the same on every rank and goes on with any number
    of ranks, processes and threads; and `batch_size` makes batches in the dataset (`loader.dataset`), so that steps
    stay whole.

    Args:
        dataset: a pipeline; for processes any dataset, for threads any iterable.
        batch_size: how many samples make a batch; None yields the items of the dataset. By default None for a dataset
            that makes batches (`.batched(…)`), and 1 for others.
        num_workers: how many processes or threads; 0 reads in the consumer's thread. "auto" (threads) begins with one
            for each processor and adds more where functions wait; `stats().choice` says what was chosen, and why.
        workers: "processes" or "threads".
        collate_fn: makes a batch of a list of samples; with `batch_size=None` it is called with each item.
        drop_last: leave out a last batch that is not full.
        prefetch_factor: how many items wait for the consumer: of each process, or of all threads together. With
            threads, items that come within two milliseconds count as one.
        memory: how many bytes may wait (threads).
        pin_memory: put batches into pinned memory, if there is a device to copy to.
        device: yield batches whose arrays and tensors are tensors on this device (docs/howto/device.md).
        shared_memory: False sends batches through pipes (processes).
        settings: other arguments of `torch.utils.data.DataLoader` (processes).
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: Any = USUAL,
        *args: Any,
        workers: str = "processes",
        device: Any = None,
        **settings: Any,
    ) -> None:
        if isinstance(dataset, str) or not (hasattr(dataset, "__iter__") or hasattr(dataset, "__getitem__")):
            raise SpecError(f"WebLoader({dataset!r:.200}): expected a dataset", hint="WebDataset(...) reads shards")
        require_choice("workers", workers, ("processes", "threads"))
        if not isinstance(dataset, DataPipeline) and (
            workers == "threads" or _is_read_in_order(dataset, args, settings)
        ):
            dataset = DataPipeline(dataset)
        settings["device"] = None if device is None else Device(device)
        size = default_batch_size(dataset) if batch_size is USUAL else batch_size
        if batch_size is not USUAL and size is not None and not settings.get("collate_fn") and makes_batches(dataset):
            warn(
                f"batch_size={size!r} makes batches of batches: the dataset makes them already; pass batch_size=None",
                stacklevel=2,
            )
        if isinstance(dataset, DataPipeline) and not args and size is not None:
            collate, drop_last = settings.pop("collate_fn", None), settings.pop("drop_last", False)
            dataset = batch_inside(dataset, size, collate, drop_last)
            size = None
            settings["collate_fn"] = as_it_is
        make = _thread_source if workers == "threads" else _process_source
        super().__init__(make(dataset, size, *args, **settings))
        self.dataset = dataset
        self._share_with_dataset()

    def _share_with_dataset(self) -> None:
        """Count epochs with the dataset: a loader that is made anew for every epoch has a new order each time, too."""
        if isinstance(self.dataset, DataPipeline):
            self.share_epochs(self.dataset)

    def _copy(self) -> Self:
        result = super()._copy()
        result._share_with_dataset()
        return result

    def __repr__(self) -> str:
        """Dataset, workers and epoch, then the stages after the loader; a checkpoint has its own text."""
        if identifies.get():
            return super().__repr__()
        source, *later = self.pipeline
        threads = getattr(source, "threads", None)
        workers = f"{getattr(source, 'num_workers', 0)} processes" if threads is None else f"{threads} threads"
        epoch = self._epochs.peek() if self._run is None else self._run.pass_number
        words = [repr(self.dataset), f"workers={workers}", f"epoch={epoch}", *map(shown, later)]
        return f"{type(self).__name__}({', '.join(words)})"

    def _source_items(self) -> int | None:
        try:
            return len(self.pipeline[0])
        except TypeError:
            return None

    @property
    def _sizes_epochs(self) -> bool:
        return True

    def seek(self, step: int) -> None:
        """Let the next `iter()` begin with this step of its epoch (a batch on every rank); nothing before is read."""
        self.skip(range(step))

    def skip(self, steps: int | range) -> None:
        """Let the next `iter()` leave out a step of its epoch, or a range, on all ranks; more calls leave out more."""
        start = self._next_start()
        inner = Cursor(start.epoch)
        if isinstance(start.where, InStages) and isinstance(start.where.progress[0], Cursor):
            inner = start.where.progress[0]
        self._move_start(replace(start, where=InStages((self._planned().cursor_without(steps, inner),))))

    def samples_of_step(self, step: int, epoch: int | None = None) -> list[SampleLocation]:
        """The samples of a step, rank by rank: shard, key and byte ranges of each; no data are read.

        Args:
            step: counts from 0 in the epoch; a step is one batch on every rank.
            epoch: by default the next one.
        """
        return self._planned().samples_of_step(step, epoch)

    def _planned(self) -> Plannable:
        if not isinstance(self.dataset, Plannable):
            raise SpecError(
                "seek, skip and samples_of_step need an indexed dataset", hint="index the shards: index=True"
            )
        return self.dataset

    def state_dict(self) -> dict[str, Json]:
        """The position after the last item delivered, as JSON.

        >>> loader = WebLoader([0, 1, 2], batch_size=None, num_workers=1, workers="threads")
        >>> items = iter(loader)
        >>> next(items)
        0
        >>> again = WebLoader([0, 1, 2], batch_size=None, num_workers=2, workers="threads")
        >>> again.load_state_dict(loader.state_dict())
        >>> list(again)
        [1, 2]
        """
        return super().state_dict()

    def _checkpoint(self, cursor: Cursor) -> Checkpoint:
        dataset = self.dataset._identity() if isinstance(self.dataset, DataPipeline) else None
        return Checkpoint(self._identity(), cursor, dataset)

    def _load(self, checkpoint: Checkpoint) -> None:
        saved = checkpoint.dataset
        if (saved is not None) != isinstance(self.dataset, DataPipeline):
            raise StateError(
                "the checkpoint is of a loader of another kind of dataset",
                hint="load it into the loader that saved it",
            )
        if saved is not None:
            self.dataset._identity().check(saved)
        super()._load(checkpoint)
        source, where = self.pipeline[0], checkpoint.cursor.where
        if isinstance(source, Resumable) and isinstance(where, InStages) and where.progress[0] is not None:
            source.start(Pass(epoch=checkpoint.cursor.epoch)).load(
                where.progress[0], _not_held
            )  # so that a wrong cursor is an error here, not in the next epoch

    def stats(self) -> Stats:
        """Return what this loader did since its epoch began: the rate and busy share of its parts, the bottleneck.

        >>> loader = WebLoader(range(100), batch_size=None, num_workers=1, workers="threads")
        >>> len(list(loader)), loader.stats().items
        (100, 100)
        """
        stats = getattr(self.pipeline[0], "stats", None)
        if stats is None:
            raise SpecError("the dataset of this loader is not a DataPipeline", hint="wrap it: DataPipeline(…)")
        return stats()  # type: ignore[no-any-return]  # a stage may be anything

    def watched(self) -> Self:
        """Return a copy with a copy of the dataset, in which every stage is timed; see `webdataset.profile`."""
        result = self._copy()
        watched = getattr(self.pipeline[0], "with_watch", None)
        if watched is None:
            raise SpecError("the dataset of this loader is not a DataPipeline", hint="wrap it: DataPipeline(…)")
        result.pipeline[0] = watched()
        return result


def _is_read_in_order(dataset: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> bool:
    """Whether a sequence of batches is read from first to last; torch reads it in any other order."""
    given = (settings.get(name) for name in _ORDERS)
    return isinstance(dataset, ArrayBatches) and not args and all(value is None or value is False for value in given)


def _not_held(origin: Json) -> Any:
    raise StateError(f"expected a loader that holds nothing, got {origin}")


def _thread_source(
    dataset: DataPipeline,
    batch_size: int | None,
    *,
    num_workers: int | str = 0,
    prefetch_factor: int = 2,
    memory: int = 1 << 28,
    pin_memory: bool = False,
    device: Device | None = None,
    collate_fn: Any = None,
    drop_last: bool = False,
    **settings: Any,
) -> Threads:
    if settings:
        raise SpecError(f"WebLoader(workers='threads') got {', '.join(settings)}", hint=_THREAD_OPTIONS)
    if num_workers != "auto":
        num_workers = require_count("WebLoader", "num_workers", num_workers, least=0)
    prefetch_factor = require_count("WebLoader", "prefetch_factor", prefetch_factor, least=1)
    memory = require_count("WebLoader", "memory", memory, least=1)
    convert = converted if collate_fn is None else collate_fn
    return Threads(dataset, num_workers, prefetch_factor, memory, pin_memory, device, convert)


def _process_source(
    dataset: Any, batch_size: Any, *args: Any, shared_memory: bool = True, device: Device | None = None, **settings: Any
) -> Any:
    try:
        from torch.utils.data import DataLoader

        from ._processes import Processes
        from ._start_worker import StartWorker
    except ImportError as error:
        if settings.get("num_workers", 0) == 0 and isinstance(dataset, DataPipeline) and not args:
            return Threads(dataset, device=device, convert=settings.get("collate_fn") or converted)  # without a thread
        raise MissingDependency("torch", extra="torch", why="to start worker processes") from error
    refuse_unknown("WebLoader(workers='processes')", settings, WebLoader, DataLoader)
    settings["num_workers"] = require_count("WebLoader", "num_workers", settings.get("num_workers", 0), least=0)
    if isinstance(dataset, DataPipeline) and batch_size is None and not args:
        return Processes(dataset, shared_memory=shared_memory, device=device, **settings)
    loader = DataLoader(dataset, batch_size, *args, **settings)
    parent = replace(Parent.here(), in_main_thread=False)  # each epoch may start workers, from any thread
    loader.worker_init_fn = StartWorker(parent, loader.worker_init_fn)
    if device is None:
        return loader
    loader.pin_memory = loader.pin_memory or device.has_streams
    return OnDevice(loader, device)
