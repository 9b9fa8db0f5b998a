"""Batches on a device, each copied there while the program uses the one before.

A stream of its own copies them out of pinned memory, while the device does the work of the program. When a batch is
yielded, the program's stream waits for its copy; the program itself does not wait. Batches that were copied ahead were
not yielded: a checkpoint does not count them, and an error is raised after the batches before it.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from webdataset.describe import shown
from webdataset.errors import MissingDependency, SpecError, StageError, WebDatasetError

from ._meter import Meter
from ._pin_memory import each_tensor, kind_with_streams

T = TypeVar("T")


@dataclass(frozen=True)
class Device:
    """A device that batches are copied to; wrong and missing ones are refused.

    >>> Device("cpu")
    Device(device=device(type='cpu'))
    >>> Device("gpu")
    Traceback (most recent call last):
    webdataset.errors.SpecError: device='gpu': Expected one of cpu, cuda, ...

    Args:
        device: its name, or a `torch.device`.
    """

    device: Any

    def __post_init__(self) -> None:
        device = _parsed(self.device)
        if not _is_available(device):
            raise SpecError(f"device={str(device)!r} was not found", hint=f"choose one of {', '.join(_all_devices())}")
        object.__setattr__(self, "device", device)

    @property
    def has_streams(self) -> bool:
        """Whether it copies while it does other work; then batches should be pinned where they are made."""
        return bool(self.device.type == kind_with_streams())

    def copied(
        self, items: Generator[T, None, None], meter: Meter, take: Callable[[T], Any], put: Callable[[T, Any], T]
    ) -> Generator[T, None, None]:
        """Yield the items with their batches on the device.

        Args:
            items: the items; closed with this generator.
            meter: counts how long this takes.
            take: returns the batch of an item.
            put: returns the item with another batch.
        """
        with closing(items), closing(self._new_copier()) as copier:
            yield from _copied_ahead(items, _ItemCopier(copier, str(self.device), meter, take, put))

    def _new_copier(self) -> _Moved | _Streamed:
        with _copy_errors(str(self.device)):
            return _Streamed(self.device) if self.has_streams else _Moved(self.device)


@dataclass(frozen=True, repr=False)
class OnDevice:
    """A loader of another package with its batches on a device.

    >>> import torch
    >>> list(OnDevice([torch.ones(2)], Device("cpu")))
    [tensor([1., 1.])]
    """

    loader: Any
    device: Device

    def __iter__(self) -> Iterator[Any]:
        return self.device.copied((item for item in self.loader), Meter(), lambda item: item, lambda _, moved: moved)

    def __len__(self) -> int:
        return len(self.loader)

    def __repr__(self) -> str:
        return shown(self.loader)  # a checkpoint may be resumed on any device


def _parsed(device: Any) -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingDependency("torch", extra="torch", why=f"to put batches on {device!r}") from error
    if not isinstance(device, (str, torch.device)):
        raise SpecError(f"device={device!r:.200}: expected a name such as 'cuda:1', or a torch.device")
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise SpecError(f"device={device!r}: {error}", hint=f"choose one of {', '.join(_all_devices())}") from error


def _is_available(device: Any) -> bool:
    """Whether tensors can be on this device; checked without initialising the device, which would take its memory."""
    import torch

    if device.type == kind_with_streams():
        return device.index is None or device.index < torch.accelerator.device_count()
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError):  # each kind of device raises its own error if it is missing
        return False
    return True


def _all_devices() -> list[str]:
    import torch

    kind = kind_with_streams()
    count = 0 if kind is None else torch.accelerator.device_count()
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", "meta", *mps, *(f"{kind}:{index}" for index in range(count))]


@dataclass(frozen=True)
class _Copy:
    """A batch on the device; with an event, the copy is complete when the event has come."""

    there: Any
    end: Any = None


@dataclass(frozen=True)
class _ItemCopier(Generic[T]):
    """Copies the batches of items to the device, in two steps."""

    to_device: _Moved | _Streamed
    name: str
    meter: Meter
    take: Callable[[T], Any]
    put: Callable[[T, Any], T]

    def begin(self, item: T) -> tuple[T, _Copy]:
        """Start the copy."""
        with _copy_errors(self.name), self.meter.timing("copying", count=1):
            return item, self.to_device.begin(self.take(item))

    def end(self, item: T, copy: _Copy) -> T:
        """Return the item with its batch on the device, for the stream that is current in this thread."""
        with _copy_errors(self.name), self.meter.timing("copying"):
            return self.put(item, self.to_device.end(copy))


@contextmanager
def _copy_errors(device: str) -> Iterator[None]:
    try:
        yield
    except WebDatasetError:
        raise
    except Exception as error:
        what = str(error).partition("\n")[0]  # torch adds pages of C++ frames
        raise StageError(
            f"a batch cannot be copied to {device}: {what}", hint="without device= it comes as it was made"
        ) from error


def _copied_ahead(items: Iterator[T], copier: _ItemCopier[T]) -> Iterator[T]:
    """Yield the items in order, each when the copies of those after it have begun; raise an error after its items."""
    begun: deque[tuple[T, _Copy]] = deque()
    failure: Exception | None = None
    try:
        while True:
            try:
                begun.append(copier.begin(next(items)))
            except StopIteration:
                break
            except Exception as error:
                failure = error
                break
            if len(begun) > copier.to_device.ahead:
                yield copier.end(*begun.popleft())  # not in a variable, which would keep the batch in memory
        while begun:
            yield copier.end(*begun.popleft())
        if failure is not None:
            raise failure
    finally:
        del failure  # it refers to this frame: the cycle would keep the whole iteration alive


class _Moved:
    """Copies to a device without streams: when the batch is yielded."""

    ahead = 0

    def __init__(self, device: Any) -> None:
        self._device = device

    def begin(self, value: Any) -> _Copy:
        return _Copy(each_tensor(value, lambda tensor: tensor.to(self._device)))

    def end(self, copy: _Copy) -> Any:
        return copy.there

    def close(self) -> None:
        """Do nothing: no copy is pending."""


class _Streamed:
    """Copies to a device with streams: out of pinned memory, in a stream other than that of the program."""

    ahead = 1

    def __init__(self, device: Any) -> None:
        import torch

        index = torch.accelerator.current_device_index() if device.index is None else device.index
        self._device = torch.device(device.type, index)
        self._stream = _side_stream(self._device)
        self._sources: deque[tuple[Any, Any]] = deque()  # events, and the memory that must be kept until they have come

    def begin(self, value: Any) -> _Copy:
        """Start to copy; tensors that are not in plain memory are moved now, by the stream that made them."""
        source = each_tensor(value, self._prepared)
        try:
            with self._stream:
                there = each_tensor(source, self._begun)
            end = self._stream.record_event()
        except BaseException:
            self._stream.synchronize()  # some copies may be pending
            raise
        while self._sources and self._sources[0][0].query():
            self._sources.popleft()
        self._sources.append((end, source))
        return _Copy(there, end)

    def _prepared(self, tensor: Any) -> Any:
        return tensor.pin_memory() if _is_plain(tensor) else tensor.to(self._device)

    def _begun(self, tensor: Any) -> Any:
        return tensor.to(self._device, non_blocking=True) if _is_plain(tensor) else tensor

    def end(self, copy: _Copy) -> Any:
        """Return the batch for the stream that is current in this thread."""
        import torch

        current = torch.accelerator.current_stream(self._device)
        current.wait_event(copy.end)
        return each_tensor(copy.there, lambda tensor: _used_by(current, tensor))

    def close(self) -> None:
        """Wait until all sources have been copied, before they are freed."""
        while self._sources:
            self._sources[0][0].synchronize()
            self._sources.popleft()


@functools.cache
def _side_stream(device: Any) -> Any:
    """Return one stream for all epochs and loaders: torch reuses the memory of a stream only for the same stream."""
    import torch

    return torch.Stream(device)


def _is_plain(tensor: Any) -> bool:
    import torch

    return bool(tensor.device.type == "cpu" and tensor.layout is torch.strided)


def _used_by(stream: Any, tensor: Any) -> Any:
    """Keep the memory of a tensor, which belongs to the stream that copied it, until this stream has used it, too."""
    import torch

    if tensor.layout is torch.strided:
        tensor.record_stream(stream)
    return tensor
