"""Whole batches by column: `decode`, `to_tuple` and `batched` without a Python step per sample and stage.

The functions of one sample and `batched` are the reference. If all of these stages have a function of columns as well,
the samples of a batch are taken together and the batch is made of columns. If that fails for any reason (a field is
missing, a value is damaged, a decoder is a function of the user), the same samples go through the functions one by one.
So handlers and errors are those of the reference. Samples that were taken and not yielded are in flight, as they are
with threads, so checkpoints are the same, too.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Self

from webdataset.flow import Columns, PerItem, StepByStepError
from webdataset.stages import Batched, combine_columns, default_collation_fn

from ._fused import UPSTREAM, InFlight


class ColumnBatches:
    """The items that functions of one item take; those of a whole batch can be taken together.

    >>> from webdataset.flow import Pass
    >>> from webdataset.stages import Decode, ToTuple
    >>> samples = iter([{"cls": b"1"}, {"cls": b"2"}])
    >>> columns = ColumnBatches.of([Decode(), ToTuple("cls")], Batched(2), samples)
    >>> list(columns.run(iter(()), Batched(2).start(Pass())))
    [(array([1, 2]),)]
    """

    @classmethod
    def of(cls, stages: Sequence[PerItem], batching: Any, items: Iterator[Any] | None) -> Self | None:
        """Return an instance if all of these stages have functions of columns and `batching` is plain, else None."""
        if not stages or type(batching) is not Batched or batching.collation_fn is not default_collation_fn:
            return None
        steps = [step for stage in stages if (step := stage.on_columns()) is not None]
        return cls(steps, batching, items) if items is not None and len(steps) == len(stages) else None

    def __init__(self, steps: Sequence[Callable[[Columns], Columns]], batching: Batched, items: Iterator[Any]) -> None:
        self._steps, self._batching = steps, batching
        self._items = chain(items)  # unlike `items`, it stays at its end
        self._at = InFlight()  # the progress of the functions
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[Any]:
        """Yield the items for the functions: first those that are in flight, then new ones."""
        # No call from taking an item to the `yield`: Ctrl-C comes when a call ends, and would lose the item.
        while True:
            at = self._at
            while at.again:
                item, at.handed = at.again[0], at.origins[0]
                del at.again[0], at.origins[0]
                yield item
            if not at.origins:
                at.handed = UPSTREAM
            error, self._error = self._error, None
            if error is not None:
                raise error
            for item in self._items:
                yield item
                break  # items may be in flight by now
            else:
                if not at.again:
                    return

    def run(self, results: Iterator[Any], at: Any) -> Iterator[Any]:
        """Yield the batches; `results` are those of the functions of one sample, for batches that need them."""
        if isinstance(at.upstream, InFlight):
            self._at = at.upstream
        one_by_one: Generator[Any, None, None] = self._batching.run(results, at)  # type: ignore[assignment]  # it is one
        while inspect.getgeneratorstate(one_by_one) != inspect.GEN_CLOSED:
            samples = None if at.items or at.skip else self._take(self._batching.batchsize)
            try:
                batch = None if samples is None else self._make(samples)
            except Exception:  # the functions of one sample raise the error again, for the handlers
                samples = None
            if samples is None:
                yield from islice(one_by_one, 1)
                at.skip = 0
                continue
            in_flight, origins, nothing = self._at, list(self._at.origins), (deque[Any](), deque[Any]())
            # No call from here to the yield: Ctrl-C comes when a call ends, and would find the batch nowhere.
            in_flight.again, in_flight.origins = nothing
            at.handed = None if None in origins else origins
            yield batch

    def _take(self, count: int) -> deque[Any] | None:
        """Take the next `count` items, which are in flight then; None if there are fewer, or threads work on some."""
        again, origins, above = self._at.again, self._at.origins, self._at.upstream
        if self._at.stopped or len(again) != len(origins) or len(again) > count:
            return None
        try:
            for item in islice(self._items, count - len(again)):
                again.append(item)
                origins.append(above.origin if above is not None else None)
        except Exception as error:  # raised after the items before it
            self._error = error
        finally:
            if len(again) > len(origins):  # Ctrl-C between the two
                origins.append(above.origin if above is not None else None)
        return again if len(again) == count else None

    def _make(self, samples: Sequence[Any]) -> Any:
        if set(map(type, samples)) != {dict} or len(set(map(len, samples))) != 1:
            raise StepByStepError
        columns: Columns = {name: [sample[name] for sample in samples] for name in samples[0]}
        for step in self._steps:
            columns = step(columns)
        return combine_columns(columns)
