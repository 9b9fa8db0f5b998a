"""A source of numbers that knows origins: the smallest dataset that resumes exactly."""

import os
import time
from dataclasses import dataclass

from webdataset.flow import Origin, Pass, Progress, Source
from webdataset.loader import WebLoader
from webdataset.pipeline import DataPipeline, FluidInterface


class Counted(Progress):
    def __init__(self, first):
        self.first = first
        self.taken = 0

    @property
    def origin(self):
        return Origin("numbers", self.base + (self.taken - 1) * self.parts + self.part, 0)

    def save(self):
        return self.taken

    def load(self, saved, recall):
        self.taken = saved


@dataclass(frozen=True)
class Numbers(Source):
    """0 … n-1, the part of this worker, starting with epoch * 1000."""

    n: int
    by_epoch: bool = False

    def start(self, during: Pass):
        at = Counted(during)
        at.base = 1000 * during.epoch if self.by_epoch else 0
        at.part, at.parts = during.world.part
        return at

    def run(self, items, at):
        while at.taken * at.parts + at.part < self.n:
            at.taken += 1
            yield at.base + (at.taken - 1) * at.parts + at.part

    def recall(self, origin):
        return origin[1]


class Dataset(DataPipeline, FluidInterface):
    pass


def numbers(n, **kw):
    return Dataset(Numbers(n, **kw))


def threads(dataset, n, **kw):
    return WebLoader(dataset, **{"batch_size": None, **kw}, num_workers=n, workers="threads")


def in_shared_memory():
    """What lies in /dev/shm, without the semaphores that other tests' spawned processes name there for a while."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}


def assert_nothing_new_in_shared_memory(before):
    """Other processes of this machine may use it as well, for a moment."""
    deadline = time.monotonic() + 5
    while (new := in_shared_memory() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not new
