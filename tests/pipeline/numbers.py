"""A source of numbers with origins, so that pipelines can be tested without shards."""

from dataclasses import dataclass

from webdataset.flow import Progress, Source


class At(Progress):
    def __init__(self):
        self.taken = 0

    @property
    def origin(self):
        return ["numbers", self.taken - 1, 0]

    def save(self):
        return self.taken

    def load(self, saved, recall):
        self.taken = saved


@dataclass(frozen=True)
class Numbers(Source):
    n: int

    def start(self, during):
        return At()

    def run(self, items, at, /):
        while at.taken < self.n:
            at.taken += 1
            yield at.taken - 1

    def recall(self, origin):
        return origin[1]
