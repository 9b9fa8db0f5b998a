"""Values → bytes, by the name of the field."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from webdataset.errors import EncodingError, SpecError, WebDatasetError, add_where

from ._audio import AUDIO_EXTENSIONS
from ._codec_tables import default_handlers
from ._compressed_fields import PACK
from ._image_specs import IMAGE_EXTENSIONS
from ._video import VIDEO_EXTENSIONS

Sample = dict[str, Any]

_MEDIA = frozenset({*IMAGE_EXTENSIONS, *AUDIO_EXTENSIONS, *VIDEO_EXTENSIONS})
_MEDIA_FILES = tuple(f".{extension}" for extension in _MEDIA)


def encode_field(
    field: str, value: Any, handlers: Mapping[str, Callable[..., Any]] | None = None, /, **options: Any
) -> bytes:
    r"""Encode one field by its name.

    >>> encode_field("label.cls", 3), encode_field("json", {"a": 1}), encode_field("txt", "héllo")
    (b'3', b'{"a": 1}', b'h\xc3\xa9llo')
    >>> encode_field("cls", None)
    Traceback (most recent call last):
    webdataset.errors.EncodingError: expected an integer, got None (NoneType) – field cls – ...

    Bytes stay as they are and text becomes UTF-8, for any name; a suffix `.gz` or `.zst` packs the result.

    Args:
        field: the name; the longest ending of it that is in the table decides, `imu.z` before `z`.
        value: what to encode.
        handlers: a table to use instead of `default_handlers`.
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
    handler = _find(handlers, name)
    if extension in PACK and handler is None:
        level = {"level": options.pop("level")} if "level" in options else {}
        packed: Any = data if isinstance(data, bytes) else _encode(data, inner, handlers, options)
        return PACK[extension](packed, **level)
    if isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    if extension in _MEDIA and _is_file_name(data):
        raise EncodingError(
            f"expected the content of the file, got the path {str(data)!r:.200}", hint="Path(…).read_bytes() reads it"
        )
    if isinstance(data, str):
        return data.encode()
    if handler is None:
        raise EncodingError(
            f"no encoder found for {name}",
            hint=f"give bytes or text, use a known extension, or pass "
            f"encoder={{**webdataset.writer.default_handlers, {name!r}: function}} to the writer",
        )
    if options:
        _check_options(handler, data, extension, options)
    return handler(data, **options)


def _is_file_name(data: Any) -> bool:
    """Whether a value is the name of a media file and not its content; `a.jpeg` in a field `jpg` is one, too."""
    if isinstance(data, str):
        return data.lower().endswith(_MEDIA_FILES) and "\n" not in data
    return isinstance(data, PurePath)


def _find(handlers: Mapping[str, Callable[..., Any]], name: str) -> Callable[..., Any] | None:
    """The encoder for the longest ending of a name that has one: for `left.imu.z` those of `imu.z` and `z`."""
    name = name.lower()
    while name:
        handler = handlers.get(name)
        if handler is not None:
            return handler
        name = name.partition(".")[2]
    return None


def _check_options(handler: Callable[..., Any], data: Any, extension: str, options: dict[str, Any]) -> None:
    try:
        inspect.signature(handler).bind(data, **options)
    except TypeError as error:
        raise SpecError(f"the encoder of {extension!r} does not take these options: {error}") from error


def encode_based_on_extension(sample: Sample, handlers: Mapping[str, Callable[..., Any]]) -> Sample:
    """Encode all fields of a sample.

    >>> encode_based_on_extension({"__key__": "a", "cls": 3}, default_handlers)
    {'__key__': 'a', 'cls': b'3'}
    """
    return {name: encode_based_on_extension1(data, name, handlers) for name, data in sample.items()}
