"""Some fields of every sample, in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

from webdataset.arguments import require_callable
from webdataset.describe import Described, call
from webdataset.flow import Columns, Pass, PerItem, StepByStepError
from webdataset.handlers import Handler, reraise_exception

from ._ask_handler import guarded
from ._field_names import alternatives, getfirst, parse_field_spec


@dataclass(frozen=True, repr=False, init=False)
class ToTuple(Described, PerItem):
    """Turn samples into tuples of the named fields.

    >>> list(ToTuple("jpg;png", "cls")([{"__key__": "a", "png": b"...", "cls": 3}]))
    [(b'...', 3)]

    A single string with blanks names several fields: `to_tuple("jpg;png cls")`.

    Args:
        args: field names; `"a;b"` or `["a", "b"]` is the first of these that a sample has.
        handler: called when a field is missing.
        missing_is_error: False puts None for a field that is not there.
        none_is_error: whether a value may be None; as `missing_is_error` if not given.
    """

    verb: ClassVar[str] = "to_tuple"
    needs_fields: ClassVar[bool] = True
    args: tuple[str | Sequence[str], ...]
    handler: Handler = reraise_exception
    missing_is_error: bool = True
    none_is_error: bool = True

    def __init__(
        self,
        *args: str | Sequence[str],
        handler: Handler = reraise_exception,
        missing_is_error: bool = True,
        none_is_error: bool | None = None,
    ) -> None:
        if len(args) == 1 and isinstance(args[0], str):
            args = tuple(args[0].split())
        for field in args:
            alternatives(field)
        require_callable("to_tuple", handler=handler)
        strict = missing_is_error if none_is_error is None else none_is_error
        self._set(args=args, handler=handler, missing_is_error=missing_is_error, none_is_error=strict)

    def __repr__(self) -> str:
        changed = {} if self.missing_is_error else {"missing_is_error": False}
        if self.none_is_error != self.missing_is_error:
            changed["none_is_error"] = self.none_is_error
        handler = {} if self.handler is reraise_exception else {"handler": self.handler}
        return call("to_tuple", *self.args, **handler, **changed)

    def function(self, during: Pass) -> Callable[[Any], Any]:
        """The sample's fields."""
        fields = parse_field_spec(self.args)
        missing_is_error, none_is_error = self.missing_is_error, self.none_is_error
        pick = _picker([field[0] for field in fields])

        def to_tuple(sample: Any) -> Any:
            try:
                values = pick(sample)
            except KeyError:
                values = None
            if values is None:  # outside of the except: the KeyError says less than the error that may follow
                values = tuple([getfirst(sample, field, None, missing_is_error) for field in fields])
            if none_is_error:
                for value in values:
                    if value is None:
                        raise ValueError(f"to_tuple {self.args} got {list(sample)}: a field is None")
            return values

        return guarded(to_tuple, self, self.handler, during, draws=False)

    def on_columns(self) -> Callable[[Columns], Columns]:
        """The chosen columns."""
        fields, none_is_error = parse_field_spec(self.args), self.none_is_error

        def choose(columns: Columns) -> Columns:
            chosen = tuple([getfirst(columns, field) for field in fields])
            arrays = [id(each) for each in chosen if not isinstance(each, list)]
            if len(set(arrays)) < len(arrays):  # one field twice: each sample has arrays of its own
                raise StepByStepError
            if none_is_error and any(type(None) in map(type, each) for each in chosen if isinstance(each, list)):
                raise StepByStepError
            return chosen

        return choose


def _picker(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that takes the first alternatives, which samples nearly always have, in one step."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda sample: tuple([sample[name] for name in names])
