"""Values → bytes, by the name of the field."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webdataset.errors import EncodingError, SpecError, WebDatasetError, add_where

from ._compress import PACK
from ._tables import default_handlers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Sample = dict[str, Any]


def encode_field(
    field: str, value: Any, handlers: Mapping[str, Callable[..., Any]] | None = None, /, **options: Any
) -> bytes:
    """Encode one field by its name.

    >>> encode_field("label.cls", 3), encode_field("json", {"a": 1}), encode_field("txt", "héllo")
    (b'3', b'{"a": 1}', b'h\\xc3\\xa9llo')
    >>> encode_field("cls", None)
    Traceback (most recent call last):
    webdataset.errors.EncodingError: a whole number is wanted, not None (NoneType) – field cls – ...

    Bytes pass as they are and text becomes UTF-8, whatever the name; a suffix `.gz` or `.zst` packs the result.

    Args:
        field: the name, of which the last part decides.
        value: what to encode.
        handlers: another table than `default_handlers`.
        options: for the codec, such as `quality=90`; `level` goes to the packing of `.gz` and `.zst`.
    """
    encoded = encode_based_on_extension1(value, field, default_handlers if handlers is None else handlers, **options)
    return encoded.encode() if isinstance(encoded, str) else bytes(encoded)


def encode_based_on_extension1(
    data: Any, tname: str, handlers: Mapping[str, Callable[..., Any]], **options: Any
) -> Any:
    """Encode one field with a table of encoders; names that start with `_` hold text, which stays as it is.

    >>> encode_based_on_extension1({"a": 1}, "json", default_handlers)
    b'{"a": 1}'
    """
    if tname.startswith("_"):
        if not isinstance(data, str):
            raise EncodingError(
                "the values of metadata must be of string type", hint=f"{tname} is {type(data).__name__}"
            )
        return data
    try:
        return _encode(data, tname, handlers, options)
    except WebDatasetError as error:
        add_where(error, field=tname)
        raise
    except Exception as error:
        wrapped = EncodingError(f"{type(data).__name__} cannot be encoded: {type(error).__name__}: {error}")
        add_where(wrapped, field=tname)
        raise wrapped from error


def _encode(data: Any, name: str, handlers: Mapping[str, Callable[..., Any]], options: dict[str, Any]) -> Any:
    inner, _, extension = name.rpartition(".")
    extension = extension.lower()
    if extension in PACK and extension not in handlers:
        level = {"level": options.pop("level")} if "level" in options else {}
        packed: Any = data if isinstance(data, bytes) else _encode(data, inner, handlers, options)
        return PACK[extension](packed, **level)
    if isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    if isinstance(data, str):
        return data.encode()
    handler = handlers.get(extension)
    if handler is None:
        raise EncodingError(
            f"no handler found for {name}",
            hint="give bytes or text, use a known extension, or add to webdataset.writer.default_handlers",
        )
    if options:
        _check_options(handler, data, extension, options)
    return handler(data, **options)


def _check_options(handler: Callable[..., Any], data: Any, extension: str, options: dict[str, Any]) -> None:
    try:
        inspect.signature(handler).bind(data, **options)
    except TypeError as error:
        raise SpecError(f"the encoder of {extension!r} does not take these options: {error}") from error


def encode_based_on_extension(
    sample: Sample,
    handlers: Mapping[str, Callable[..., Any]],
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Sample:
    """Encode all fields of a sample.

    >>> encode_based_on_extension({"__key__": "a", "cls": 3}, default_handlers)
    {'__key__': 'a', 'cls': b'3'}
    """
    if not options:
        return {name: encode_based_on_extension1(data, name, handlers) for name, data in sample.items()}
    return {
        name: encode_based_on_extension1(data, name, handlers, **options_for(name, options))
        for name, data in sample.items()
    }


def options_for(field: str, options: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The options of a field: those of its whole name, else those of its last part.

    >>> options_for("left.jpg", {"jpg": {"quality": 90}})
    {'quality': 90}
    """
    return dict(options.get(field) or options.get(field.rpartition(".")[2].lower()) or {})


def make_encoder(
    spec: bool | Mapping[str, Callable[..., Any]] | Callable[[Sample], Sample] | None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[[Sample], Sample]:
    """A function that encodes samples: True means the default table, a dict another one, False or None nothing.

    >>> make_encoder(True, {"jpg": {"quality": 90}})({"__key__": "a", "cls": 3})
    {'__key__': 'a', 'cls': b'3'}
    """
    if options and (spec is None or spec is False or (callable(spec) and not isinstance(spec, dict))):
        raise SpecError("encoder options need a table of encoders", hint="use encoder=True or a dict")
    if spec is False or spec is None:
        return _unchanged
    if spec is True:
        return Encoder(default_handlers, options or {})
    if isinstance(spec, dict):
        return Encoder(spec, options or {})
    if callable(spec):
        return spec
    raise SpecError(f"{spec!r}: unknown decoder spec", hint="use True, False, a dict of functions, or a function")


def _unchanged(sample: Sample) -> Sample:
    return sample


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes samples with a table, and options by field name or extension.

    >>> Encoder(default_handlers, {"jpg": {"quality": 90}})({"cls": 3})
    {'cls': b'3'}
    """

    handlers: Mapping[str, Callable[..., Any]]
    options: Mapping[str, Mapping[str, Any]]

    def __call__(self, sample: Sample) -> Sample:
        """The sample with every field as bytes."""
        return encode_based_on_extension(sample, self.handlers, self.options)
