"""`Decoder`: bytes in the fields of a sample → values, by a list of handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from webdataset.errors import DecodingError, MissingDependency, SpecError, UnsafeContent, add_where
from webdataset.flow import StepByStepError

from ._decode_handlers import BasicHandlers, Continue, Handler, as_handler, default_post_handlers, default_pre_handlers

Sample = dict[str, Any]
Step = Any  # a function of (data, sample) that runs the remaining handlers

_OWN_TYPES = {str, bool, int, type(None)}  # of values that stay as they are in fields that start with `__`
_BYTES = (bytes, bytearray, memoryview)
_COLUMN_TYPES = ({bytes}, {memoryview})
_SHOWN = 24  # bytes of a field in a message


class Decoder:
    r"""Decodes the fields of a sample.

    >>> Decoder([])({"__key__": "0001", "cls": b"3", "txt": b"a dog", "xyz": b"\x80"})
    {'__key__': '0001', 'cls': 3, 'txt': 'a dog', 'xyz': b'\x80'}

    Handlers are tried in the order `pre` + `handlers` + `post`; the first that returns something else than None wins,
    and a field that no handler decodes stays bytes. Fields that start with `__` are not decoded (bytes become text).
    `Decoder(f, g)` works too, and a decoder can be applied to a dataset instead of a sample.

    Args:
        handlers: callables of (key, data), image specs, "audio", "video".
        pre: handlers before these; by default those that unpack `.gz` and `.zst`.
        post: handlers after these; by default the table `decoders`.
        only: names of the fields to decode (whole names; a string is split at blanks), the others stay bytes.
        partial: keep values that are not bytes; otherwise they are an error.
    """

    def __init__(
        self,
        *handlers: Any,
        pre: Sequence[Any] | None = None,
        post: Sequence[Any] | None = None,
        only: str | Iterable[str] | None = None,
        partial: bool = False,
    ) -> None:
        if handlers and isinstance(handlers[0], list | tuple):
            # The public signature: (handlers, pre, post, only, partial), all of which may be positional.
            named: tuple[Any, ...] = (pre, post, only, partial)
            listed, *rest = handlers
            pre, post, only, partial = (*rest, *named[len(rest) :])
        else:
            listed = handlers
        before = default_pre_handlers if pre is None else pre
        after = default_post_handlers if post is None else post
        self.handlers: list[Handler] = [as_handler(each) for each in (*before, *listed, *after)]
        self.only = _field_names(only)
        self.partial = bool(partial)
        self._forget_plans()

    def _forget_plans(self) -> None:
        self._plans: dict[str, Step] = {}
        self._planned_for = list(self.handlers)
        self._plain = type(self).decode1 is Decoder.decode1

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in self.__dict__.items() if name not in {"_plans", "_planned_for", "_plain"}
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget_plans()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.handlers!r}, only={self.only!r}, partial={self.partial!r})"

    def __call__(self, sample: Any) -> Any:
        """Decode a sample; or, given a dataset or an iterator, all samples of it."""
        if isinstance(sample, dict):
            return self.decode(sample)
        if isinstance(sample, Iterator):
            return map(self.decode, sample)
        if hasattr(sample, "compose"):
            return sample.compose(self)
        if isinstance(sample, Iterable) and not isinstance(sample, str | bytes):
            return _Decoded(self, sample)
        return self.decode(sample)

    def decode(self, sample: Sample) -> Sample:
        """A new sample with decoded fields."""
        if not isinstance(sample, dict):
            raise SpecError(
                f"expected a sample (a dict), got {sample!r:.80} ({type(sample).__name__})",
                hint="decode before to_tuple, and after the samples are read",
            )
        result: Sample = dict(sample)
        field = ""
        plans = self._ready_plans()
        try:
            for field, value in sample.items():
                # The usual cases without a call: it makes half of what a small sample costs.
                if type(value) is str and field[:2] == "__":
                    continue
                step = plans.get(field) if type(value) is bytes else None
                result[field] = self._decode_value(field, value, sample) if step is None else step(value, sample)
        except (MissingDependency, UnsafeContent, SpecError) as error:
            add_where(error, field=field, key=sample.get("__key__"), shard=sample.get("__url__"))
            raise
        except Exception as error:
            raise _decoding_error(error, field, sample) from error
        return result

    def decode_columns(self, columns: dict[str, list[Any]]) -> dict[str, Any]:
        """Decode many samples with the same fields, by column; arrays of one shape are stacked.

        >>> Decoder().decode_columns({"__key__": ["a", "b"], "cls": [b"3", b"4"]})
        {'__key__': ['a', 'b'], 'cls': [3, 4]}

        Raises:
            StepByStepError: `decode` must be used; any other error: a value cannot be decoded.
        """
        steps = [self._column_step(field, column) for field, column in columns.items()]
        return {field: step(columns[field]) for field, step in zip(columns, steps, strict=True)}

    def _column_step(self, field: str, column: list[Any]) -> Callable[[list[Any]], Any]:
        types = set(map(type, column))
        if types <= _OWN_TYPES if field.startswith("__") else self.only is not None and field not in self.only:
            return list
        if types not in _COLUMN_TYPES or field.startswith("__") or not self._plain:
            raise StepByStepError
        for handler in self.handlers:
            if isinstance(handler, BasicHandlers):
                return handler.column_step(f".{field}")
            unwrap = getattr(handler, "unwrap", None)
            if unwrap is None or unwrap(f".{field}") is not None:
                raise StepByStepError
        return list

    def _ready_plans(self) -> dict[str, Step]:
        """The plans by field name, if they hold for every field of that name."""
        if self.handlers != self._planned_for:
            self._forget_plans()
        return self._plans if self._plain and self.only is None else {}

    def _decode_value(self, field: str, value: Any, sample: Sample) -> Any:
        if field.startswith("__"):
            return str(value, "utf-8") if isinstance(value, bytes) else value
        if self.only is not None and field not in self.only:
            return value
        if isinstance(value, _BYTES):
            return self._plan(field)(value, sample) if self._plain else self.decode1(field, value)
        if self.partial and value is not None:
            return value
        raise TypeError(f"expected bytes, got {type(value).__name__}; partial=True lets decoded values pass")

    def decode1(self, key: str, data: Any) -> Any:
        """Decode one field; the part that subclasses replace."""
        return self._plan(key)(data, None)

    def _plan(self, field: str) -> Step:
        if self.handlers != self._planned_for:
            self._forget_plans()
        plan = self._plans.get(field)
        if plan is None:
            plan = self._plans[field] = _compile(self.handlers, f".{field}")
        return plan


class _Decoded:
    """A dataset whose samples are decoded each time it is iterated over."""

    def __init__(self, decoder: Decoder, source: Iterable[Sample]) -> None:
        self.decoder, self.source = decoder, source

    def __iter__(self) -> Iterator[Sample]:
        return map(self.decoder.decode, self.source)


def _field_names(only: str | Iterable[str] | None) -> set[str] | None:
    if only is None:
        return None
    return set(only.split() if isinstance(only, str) else only)


def _compile(handlers: Sequence[Handler], key: str) -> Step:
    """One function that runs all handlers, for one field name."""
    if not handlers:
        return _keep_bytes
    first, rest = handlers[0], handlers[1:]
    if hasattr(first, "unwrap"):
        return _compile_filter(first.unwrap(key), rest, key)
    if not hasattr(first, "resolve"):
        return _compile_call(first, rest, key)
    decode = first.resolve(key)
    return _compile(rest, key) if decode is None else _compile_known(first, decode, rest, key)


def _keep_bytes(data: Any, sample: Sample | None) -> Any:
    return data


def _compile_filter(inner: tuple[str, Callable[[bytes], bytes]] | None, rest: Sequence[Handler], key: str) -> Step:
    if inner is None:
        return _compile(rest, key)
    inner_key, unpack = inner
    then = _compile(rest, inner_key)
    return lambda data, sample: then(unpack(data), sample)


def _compile_known(handler: Any, decode: Callable[[bytes], Any], rest: Sequence[Handler], key: str) -> Step:
    if hasattr(handler, "for_sample"):
        return handler.for_sample
    if isinstance(handler, BasicHandlers):
        return handler.step(key)
    return _compile_call(lambda _, data: decode(data), rest, key)


def _compile_call(handler: Handler, rest: Sequence[Handler], key: str) -> Step:
    otherwise = _compile(rest, key)

    def step(data: Any, sample: Sample | None) -> Any:
        result = handler(key, data)
        if result is None:
            return otherwise(data, sample)
        if isinstance(result, Continue):
            return _compile(rest, result.key)(result.data, sample)
        return result

    return step


def _decoding_error(error: Exception, field: str, sample: Sample) -> DecodingError:
    value = sample.get(field)
    content = ""
    if isinstance(value, _BYTES):
        content = f" (starts with {_shown(bytes(value[:_SHOWN]))})" if value else " (the field is empty)"
    reason = str(error) or type(error).__name__
    what = f"cannot decode {field!r}{content}: {type(error).__name__}: {reason:.300}"
    shard, key = sample.get("__url__"), sample.get("__key__")
    look = f"look at it with `wds get {key} {field} {shard}`, or " if shard and key else ""
    return DecodingError(shard, key, field, sample, what=what, hint=f"{look}skip such samples with handler=")


def _shown(start: bytes) -> str:
    """The first bytes of a field: as text if they are text, for example a web page in place of an image."""
    text = start.decode("ascii", "replace")
    return repr(text) if text.isprintable() and start.isascii() else start[:8].hex(" ")


default_decoder = Decoder([])


def decode_field(field: str, data: bytes, *handlers: Any) -> Any:
    r"""Decode one field by its name.

    >>> decode_field("label.cls", b"3")
    3
    >>> import numpy as np
    >>> from webdataset.codecs import encode_field
    >>> decode_field("png", encode_field("png", np.zeros((2, 2), "u1")), "rgb8").shape
    (2, 2, 3)

    Args:
        field: the name, of which the last part decides; "json.gz" works.
        data: the bytes.
        handlers: as for `Decoder`; without them images, audio and video stay bytes.
    """
    sample = Decoder(handlers).decode({field: data}) if handlers else default_decoder.decode({field: data})
    return sample[field]
