"""Streams of arrays over ZeroMQ as tensorcom sends them: a receiver gets the next message; no order, no checkpoint.

    zpush connects   zpull binds   zpub binds   zsub connects      zr… exchanges binding and connecting
    zpush://host:port   zsub+ipc://path   zsub://127.0.0.1:788{0..3} is several endpoints of one socket

A message is one batch: for each array a frame with tenbin's header and one with its data. There is no checkpoint, no
encryption and no order among senders. `connect` has all three.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import braceexpand
import numpy as np

from webdataset.codecs import tenbin
from webdataset.errors import FormatError, SpecError, StoreError, StoreTimeout, Where
from webdataset.pipeline import TorchIterable
from webdataset.stores import Closing

from ._message_rates import Statistics
from ._serve_packages import load_zmq

logger = logging.getLogger(__name__)

_BINDS = {"zpush": False, "zpull": True, "zpub": True, "zsub": False}
_SENDERS = {"zpush", "zpub"}
_END = "~end~"


Converters = list[Callable[[Any], Any]]


def to_numpy(device: Any = None) -> Converters:
    """Converters to NumPy: arrays stay arrays."""
    return [np.asarray]


def to_torch(device: Any = None) -> Converters:
    """Converters to tensors: images as channels × height × width, floats as float32, integers from 16 bits as int64."""
    import torch

    def convert(array: Any) -> Any:
        array = array if isinstance(array, torch.Tensor) else torch.from_numpy(_signed(np.asarray(array)))
        if array.ndim in {3, 4} and array.shape[-1] in {3, 4}:
            array = array.movedim(-1, -3)
        if array.is_floating_point():
            array = array.float()
        elif array.dtype in {torch.int16, torch.int32}:
            array = array.long()
        return array if device is None else array.to(device)

    return [convert]


def to_cuda(device: Any = None) -> Converters:
    """Converters to tensors on a GPU."""
    return to_torch("cuda" if device is None else device)


def _signed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Signed integers: torch has few operations for unsigned ones."""
    return array.astype(np.int64) if array.dtype in {np.dtype("u2"), np.dtype("u4"), np.dtype("u8")} else array


CONVERTERS = {"numpy": to_numpy, "torch": to_torch, "torch_cuda": to_cuda}


def parse_url(url: str) -> tuple[str, bool, str, str]:
    """The kind of socket, whether it binds, its endpoint, and its topic.

    >>> parse_url("zrsub+ipc://tmp/feed#train")
    ('sub', True, 'ipc://tmp/feed', 'train')
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # a bracket that is not closed
        parts = urlsplit("")
    found = re.fullmatch(r"z(r?)(push|pull|pub|sub)(?:\+(tcp|ipc))?", parts.scheme)
    if found is None or not parts.netloc:
        raise SpecError("this is not a stream's address", Where(shard=url), hint="for example zsub://127.0.0.1:7880")
    reverse, kind, transport = found[1], found[2], found[3] or "tcp"
    path = parts.path if transport == "ipc" else ""
    return kind, _BINDS["z" + kind] != bool(reverse), f"{transport}://{parts.netloc}{path}", parts.fragment


def zconnect(url: str | Sequence[str], topic: str = "", *, context: Any = None, noexpand: bool = False) -> Any:
    """A socket for one or more URLs of the same kind; it belongs to the caller."""
    zmq = load_zmq()
    urls = [url] if isinstance(url, str) else list(url)
    expanded = urls if noexpand else [one for each in urls for one in braceexpand.braceexpand(each)]
    parsed = [parse_url(each) for each in expanded]
    if len({kind for kind, *_ in parsed}) != 1:
        raise SpecError(f"{urls} are of different kinds", hint="one socket sends or receives in one way")
    socket = (context or zmq.Context.instance()).socket(getattr(zmq, parsed[0][0].upper()))
    socket.linger = 0
    try:
        for kind, binds, endpoint, fragment in parsed:
            (socket.bind if binds else socket.connect)(endpoint)
            if kind == "sub":
                socket.setsockopt_string(zmq.SUBSCRIBE, topic or fragment)
    except zmq.ZMQError as error:
        socket.close()
        raise StoreError(f"{endpoint}: {error}", hint="choose another port or address") from error
    return socket


class Connection(Closing):
    """Sends or receives lists of arrays.

    Args:
        url: where to; None connects later, with `connect`.
        epoch: the value of `len()`.
        total: end after so many messages; -1 for no limit.
        multipart: False puts a message into one frame.
        infos: names that arrays must have.
        device: the device that the torch converter moves tensors to.
        allow64: send arrays of 64 bits.
        raw: receive frames, not arrays.
        batch_transforms: functions that are applied to the arrays in turn.
        batch_count: statistics count the samples of the first array, not messages.
        converters: "torch", "torch_cuda", "numpy", or functions that are applied to the arrays in turn.
        report: log a summary every so many seconds; -1 never does.
        stats_horizon: how many messages recent rates are about.
        noexpand: braces in URLs are taken as they are.
        timeout: an error is raised after so many seconds without a message, or without a receiver; None waits.
    """

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        epoch: int = 100000,
        total: int = -1,
        multipart: bool = True,
        infos: Any = None,
        device: Any = None,
        allow64: bool = False,
        raw: bool = False,
        batch_transforms: Any = None,
        batch_count: bool = True,
        converters: Any = None,
        report: float = -1,
        stats_horizon: int = 1000,
        noexpand: bool = False,
        timeout: float | None = None,
    ) -> None:
        self.epoch, self.total, self.multipart, self.infos = epoch, total, multipart, infos
        self.allow64, self.raw, self.batch_count, self.report = allow64, raw, batch_count, report
        self.noexpand, self.timeout = noexpand, timeout
        self.batch_transforms = _as_list(batch_transforms)
        self.converters = CONVERTERS[converters](device) if isinstance(converters, str) else _as_list(converters)
        self.stats = Statistics(stats_horizon)
        self.socket: Any = None
        self._context: Any = None
        if url is not None:
            self.connect(url)

    def connect(self, url: str | Sequence[str], topic: str = "") -> None:
        """Open the socket."""
        self.close()
        self._context = load_zmq().Context()
        try:
            self.socket = zconnect(url, topic, context=self._context, noexpand=self.noexpand)
        except BaseException:
            self.close()
            raise

    def send(self, data: Sequence[Any], allow64: bool = False, infos: Sequence[str] | None = None) -> None:
        """Send arrays as one message; waits while no receiver can take it.

        Raises:
            StoreTimeout: no receiver took it in time.
        """
        arrays = [np.asarray(each) if not hasattr(each, "dtype") else each for each in data]
        tenbin.check_acceptable_input_type(arrays, allow64 or self.allow64)
        frames = tenbin.encode_list(arrays, infos) if self.multipart else [tenbin.encode_buffer(arrays, infos)]
        socket, zmq = self._open_socket(), load_zmq()
        if self.timeout is not None and not socket.poll(int(1000 * self.timeout), zmq.POLLOUT):
            raise StoreTimeout(f"no receiver took a message for {self.timeout:g} s", hint="is a receiver running?")
        socket.send_multipart(frames, copy=False)
        self._count(arrays, sum(memoryview(frame).nbytes for frame in frames))

    write = send

    def recv(self) -> list[Any]:
        """Receive the next message, as a list of arrays.

        Raises:
            StoreTimeout: none came in time.
            FormatError: the received data are not a message.
            EOFError: the sender has sent its last message.
        """
        socket = self._open_socket()
        if self.timeout is not None and not socket.poll(int(1000 * self.timeout)):
            raise StoreTimeout(f"no message for {self.timeout:g} s", hint="is the sender running?")
        frames = socket.recv_multipart()
        if self.raw:
            self._count([], sum(map(len, frames)))
            return list(frames)
        arrays, names = tenbin.decode_list(frames, True) if self.multipart else tenbin.decode_buffer(frames[0], True)
        if names == [_END]:
            raise EOFError("the stream has ended")
        if self.infos is not None and self.infos is not True and list(self.infos) != names:
            raise FormatError(f"expected arrays named {list(self.infos)}, got {names}")
        self._count(arrays, sum(map(len, frames)))
        for functions in (self.batch_transforms, self.converters):
            if functions is not None:
                arrays = [function(array) for function, array in zip(itertools.cycle(functions), arrays, strict=False)]
        return list(arrays)

    def serve(self, iterable: Iterable[Any], report: float = -1, *, end: bool = False) -> None:
        """Send all items: lists or tuples of arrays, or dicts, whose keys are the arrays' names.

        Args:
            iterable: the items.
            report: as for the constructor.
            end: send a last message, by which receivers of this package notice the end; others get an empty array.
        """
        for item in itertools.islice(iterable, self.total if self.total >= 0 else None):
            is_dict = isinstance(item, dict)
            self.send(list(item.values()) if is_dict else list(item), infos=list(item) if is_dict else None)
            self._report(report if report > 0 else self.report)
        if end:
            self.send([np.empty(0, np.int8)], infos=[_END])

    def items(self, report: float = -1) -> Iterator[list[Any]]:
        """Messages, until the last message of the sender, or until there were `total`."""
        for _ in itertools.count() if self.total < 0 else range(self.total):
            try:
                message = self.recv()
            except EOFError:
                return
            self._report(report if report > 0 else self.report)
            yield message

    def __iter__(self) -> Iterator[list[Any]]:
        return self.items()

    def __len__(self) -> int:
        return self.epoch

    def close(self) -> None:
        """Close the socket, after at most a second for sending what is queued."""
        if self.socket is not None:
            self.socket.close(linger=1000)
        if self._context is not None:
            self._context.term()
        self.socket = self._context = None

    def _open_socket(self) -> Any:
        if self.socket is None:
            raise SpecError("the connection is not open", hint="call connect(url)")
        return self.socket

    def _count(self, arrays: Sequence[Any], size: int) -> None:
        counted = self.batch_count and len(arrays) > 0 and arrays[0].ndim > 0
        samples = len(arrays[0]) if counted else 1
        self.stats.add(samples, size)

    def _report(self, every: float) -> None:
        if every > 0 and self.stats.is_due(every):
            logger.info("%s", self.stats.summary())


def _as_list(functions: Any) -> list[Callable[[Any], Any]] | None:
    if functions is None:
        return None
    return [functions] if callable(functions) else list(functions)


class TensorcomDataset(TorchIterable):
    """The messages of a stream as a dataset; it connects when it is iterated.

    Args:
        urls: where to.
        length: how many messages an epoch has.
        options: what `Connection` takes.
    """

    def __init__(self, urls: str | Sequence[str], length: int = 1000000, **options: Any) -> None:
        self.urls, self.length, self.options = urls, length, options

    def __iter__(self) -> Iterator[Any]:
        with Connection(self.urls, total=self.length, **self.options) as connection:
            for message in connection.items():
                yield tuple(message)

    def __len__(self) -> int:
        return self.length
