"""Batches on a device, each copied there while the program uses the one before.

A stream of its own copies them out of pinned memory, beside the work that the program has given to the device. When a
batch is handed over, the program's stream is told to wait for its copy; the program itself does not wait. What was
copied ahead has not been handed over: a checkpoint does not know of it, and an error is kept until its turn.
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
        if not _is_there(device):
            raise SpecError(f"device={str(device)!r} was not found", hint=f"choose one of {', '.join(_all_devices())}")
        object.__setattr__(self, "device", device)

    @property
    def has_streams(self) -> bool:
        """Whether it copies beside its other work; then batches are best pinned where they are made."""
        return bool(self.device.type == kind_with_streams())

    def copied(
        self, items: Generator[T, None, None], meter: Meter, take: Callable[[T], Any], put: Callable[[T, Any], T]
    ) -> Generator[T, None, None]:
        """The items with their batches on the device.

        Args:
            items: closed with this generator.
            meter: told how long this takes.
            take: the batch of an item.
            put: the item with another batch.
        """
        with closing(items), closing(self._new_way()) as way:
            yield from _handed_over(items, _Carrier(way, str(self.device), meter, take, put))

    def _new_way(self) -> _Moved | _Streamed:
        with _copy_errors(str(self.device)):
            return _Streamed(self.device) if self.has_streams else _Moved(self.device)


@dataclass(frozen=True, repr=False)
class OnDevice:
    """A foreign loader with its batches on a device.

    >>> import torch
    >>> list(OnDevice([torch.ones(2)], Device("cpu")))
    [tensor([1., 1.])]
    """

    loader: Any
    device: Device

    def __iter__(self) -> Iterator[Any]:
        return self.device.copied((item for item in self.loader), Meter(), lambda item: item, lambda _, there: there)

    def __len__(self) -> int:
        return len(self.loader)

    def __repr__(self) -> str:
        return shown(self.loader)  # a checkpoint goes on with any device


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


def _is_there(device: Any) -> bool:
    """Whether tensors can be there; asked in a way that does not wake the device, which would take its memory."""
    import torch

    if device.type == kind_with_streams():
        return device.index is None or device.index < torch.accelerator.device_count()
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError):  # each kind that is absent has its own way to say so
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
    """A batch that is there, or will be when an event has come."""

    there: Any
    end: Any = None


@dataclass(frozen=True)
class _Carrier(Generic[T]):
    """Takes the batches of items to the device, in two steps."""

    way: _Moved | _Streamed
    name: str
    meter: Meter
    take: Callable[[T], Any]
    put: Callable[[T, Any], T]

    def begin(self, item: T) -> tuple[T, _Copy]:
        """Start the copy."""
        with _copy_errors(self.name), self.meter.timing("copying", count=1):
            return item, self.way.begin(self.take(item))

    def end(self, item: T, copy: _Copy) -> T:
        """The item, for whoever runs in this thread."""
        with _copy_errors(self.name), self.meter.timing("copying"):
            return self.put(item, self.way.end(copy))


@contextmanager
def _copy_errors(device: str) -> Iterator[None]:
    try:
        yield
    except WebDatasetError:
        raise
    except Exception as error:
        what = str(error).partition("\n")[0]  # torch goes on with pages about itself
        raise StageError(
            f"a batch cannot be copied to {device}: {what}", hint="without device= it comes as it was made"
        ) from error


def _handed_over(items: Iterator[T], carrier: _Carrier[T]) -> Iterator[T]:
    """The items in their order, each when the copies of those after it have begun; a failure after all before it."""
    begun: deque[tuple[T, _Copy]] = deque()
    failure: Exception | None = None
    try:
        while True:
            try:
                begun.append(carrier.begin(next(items)))
            except StopIteration:
                break
            except Exception as error:
                failure = error
                break
            if len(begun) > carrier.way.ahead:
                yield carrier.end(*begun.popleft())  # not kept here: the program may want its memory back
        while begun:
            yield carrier.end(*begun.popleft())
        if failure is not None:
            raise failure
    finally:
        del failure  # it knows this frame by now: together they would keep the whole iteration


class _Moved:
    """The way to a device without streams: copied when it is wanted."""

    ahead = 0

    def __init__(self, device: Any) -> None:
        self._device = device

    def begin(self, value: Any) -> _Copy:
        return _Copy(each_tensor(value, lambda tensor: tensor.to(self._device)))

    def end(self, copy: _Copy) -> Any:
        return copy.there

    def close(self) -> None:
        """Nothing is on its way."""


class _Streamed:
    """The way to a device with streams: out of pinned memory, by a stream beside that of the program."""

    ahead = 1

    def __init__(self, device: Any) -> None:
        import torch

        index = torch.accelerator.current_device_index() if device.index is None else device.index
        self._device = torch.device(device.type, index)
        self._stream = _side_stream(self._device)
        self._sources: deque[tuple[Any, Any]] = deque()  # events, and what must stay until they have come

    def begin(self, value: Any) -> _Copy:
        """Start to copy; what is not in plain memory is moved right now, by the stream that made it."""
        source = each_tensor(value, self._prepared)
        try:
            with self._stream:
                there = each_tensor(source, self._begun)
            end = self._stream.record_event()
        except BaseException:
            self._stream.synchronize()  # some of it may be on its way
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
        """The batch for the stream that is current here."""
        import torch

        current = torch.accelerator.current_stream(self._device)
        current.wait_event(copy.end)
        return each_tensor(copy.there, lambda tensor: _used_by(current, tensor))

    def close(self) -> None:
        """Keep the sources until they have been copied."""
        while self._sources:
            self._sources[0][0].synchronize()
            self._sources.popleft()


@functools.cache
def _side_stream(device: Any) -> Any:
    """One for all epochs and loaders: torch keeps the memory that a stream used for this stream alone."""
    import torch

    return torch.Stream(device)


def _is_plain(tensor: Any) -> bool:
    import torch

    return bool(tensor.device.type == "cpu" and tensor.layout is torch.strided)


def _used_by(stream: Any, tensor: Any) -> Any:
    """Let the memory of the tensor, which belongs to the stream that copied it, wait for this stream as well."""
    import torch

    if tensor.layout is torch.strided:
        tensor.record_stream(stream)
    return tensor
