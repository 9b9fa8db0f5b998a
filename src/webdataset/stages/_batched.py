"""Many samples as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

from webdataset.arguments import require_callable, require_count
from webdataset.describe import Described
from webdataset.flow import Json, Pass, Recall, Resumable

from ._buffers import Buffer
from ._collate import default_collation_fn


@dataclass(frozen=True, repr=False)
class Batched(Described, Resumable):
    """Put every `batchsize` samples together.

    >>> list(Batched(2)([(1, "a"), (2, "b"), (3, "c")]))
    [(array([1, 2]), ['a', 'b']), (array([3]), ['c'])]

    A batch is yielded as soon as it is full.

    Args:
        batchsize: how many samples make a batch.
        collation_fn: what makes a batch out of a list of samples; None yields the list.
        partial: False leaves out the last batch if it is not full.
    """

    verb: ClassVar[str] = "batched"
    batchsize: int = 20
    collation_fn: Callable[[Sequence[Any]], Any] | None = default_collation_fn
    partial: bool = True

    def __post_init__(self) -> None:
        self._set(batchsize=require_count(self.verb, "batchsize", self.batchsize, least=1))
        if self.collation_fn is not None:
            require_callable(self.verb, collation_fn=self.collation_fn)

    def count(self, items: int) -> int:
        """Full batches, and a last one that is not full unless it is left out."""
        return -(-items // self.batchsize) if self.partial else items // self.batchsize

    def start(self, during: Pass) -> Buffer:
        """Return the progress of a pass: an empty buffer."""
        return Buffer()

    def run(self, items: Iterator[Any], at: Buffer, /) -> Iterator[Any]:
        """Collect and yield."""
        size, collate, upstream = self.batchsize, self.collation_fn, at.upstream
        held, origins, ended = at.items, at.origins, False
        items = islice(items, at.skip, None) if at.skip else items
        try:
            while not ended:
                if len(held) < size:  # else the collation of a full batch had failed when the state was saved
                    for item in items:
                        # at.take(item) without the call, which would take 0.1 µs of the 8 µs for a small sample.
                        held.append(item)
                        origins.append(upstream.origin if upstream is not None else None)
                        if len(held) >= size:
                            break
                    else:
                        ended = True
                        if not held or not self.partial:
                            break
                batch = held if collate is None else collate(held)
                # at.hand_all() without the call: Ctrl-C is raised when a call ends, and the batch would be lost.
                at.handed = None if None in origins else origins
                held = at.items = []
                origins = at.origins = []
                yield batch
        except BaseException:
            if len(held) > len(origins):  # Ctrl-C between the two
                origins.append(at.upstream_origin())
            raise
        at.hand_all()

    def again(self, origin: Json, recall: Recall) -> Any:
        """Make the batch of these samples again."""
        samples = [recall(sample) for sample in origin]
        return samples if self.collation_fn is None else self.collation_fn(samples)


@dataclass(frozen=True, repr=False)
class Listed(Batched):
    """Put every `batchsize` items into a list.

    >>> list(Listed(2)("abc"))
    [['a', 'b'], ['c']]
    >>> list(Listed(2, partial=False)("abc"))
    [['a', 'b']]
    """

    verb: ClassVar[str] = "listed"
    collation_fn: None = field(default=None, init=False, repr=False)
