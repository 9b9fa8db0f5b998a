"""A stand-in for the streams of a device, where there is none: the processor, taken for a device that copies late.

What it stands in for is torch's API of streams and pinned memory, nothing of ours. A copy is garbage until a stream has
waited for the event behind it, as it would be on a device; everything that is asked of a stream is written down.
"""

import threading

import pytest
import torch

from webdataset.loader import _device

GARBAGE = 99


class Event:
    def __init__(self, log, copies):
        self.log, self.copies, self.ended = log, copies, False

    def come(self):
        for copy in self.copies:
            copy()
        self.copies, self.ended = [], True

    def query(self):
        return self.ended

    def synchronize(self):
        self.log.append("sync")
        self.come()


class Stream:
    def __init__(self, streams, name):
        self.streams, self.name, self.copies = streams, name, []

    def __enter__(self):
        self.streams.inside.append(self)

    def __exit__(self, *_):
        self.streams.inside.remove(self)

    def record_event(self):
        event = Event(self.streams.log, self.copies)
        self.copies = []
        self.streams.log.append(f"{self.name} event")
        self.streams.events.append(event)
        return event

    def wait_event(self, event):
        self.streams.log.append(f"{self.name} waits")
        event.come()

    def synchronize(self):
        self.streams.log.append(f"{self.name} sync")


class Streams:
    """What was asked, in `log`; the copies of a batch are one entry."""

    def __init__(self):
        self.log, self.inside, self.events = [], [], []
        self.program = Stream(self, "program")

    def copy(self, tensor, *args, **kw):
        if not kw.get("non_blocking"):
            return self.to(tensor, *args, **kw)
        (stream,) = self.inside  # never by the program's stream
        result = torch.full_like(tensor, GARBAGE)
        stream.copies.append(lambda: result.copy_(tensor))
        self.log.append(f"{stream.name} copies")
        return result


@pytest.fixture
def streams(monkeypatch):
    made = Streams()
    made.to, taker = torch.Tensor.to, threading.current_thread()

    def pin(tensor):
        if threading.current_thread() is taker:
            made.log.append("pin")
        return tensor

    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("cpu"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda _: None)
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda device: made.program)
    monkeypatch.setattr(torch, "Stream", Made(made))
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.Tensor, "to", lambda *args, **kw: made.copy(*args, **kw))
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda _, stream: made.log.append(f"{stream.name} uses"))
    _device._side_stream.cache_clear()
    yield made
    _device._side_stream.cache_clear()


class Made:
    """In the place of the class `torch.Stream`."""

    __enter__ = None

    def __init__(self, streams):
        self.streams = streams

    def __call__(self, device):
        self.streams.log.append(f"stream on {device}")
        return Stream(self.streams, "side")
