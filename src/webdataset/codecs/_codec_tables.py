"""The two tables, extension → codec. Both may be extended: `decoders["xyz"] = f`, `default_handlers["xyz"] = g`.

Images, audio and video stay bytes unless a pipeline decodes them (`decode("rgb8", "audio")`). Each extension has one
encoder.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ._arrays import npy_loads, npz_loads, numpy_dumps, numpy_npz_dumps, stack_npy
from ._audio import encode_audio
from ._cbor_limits import cbor_loads
from ._encode_image import IMAGE_FORMATS, imageencoder
from ._json import decode_json, decode_json_column, decode_jsonl, encode_json, encode_jsonl
from ._msgpack_cbor import cbor_dumps, mp_dumps, msgpack_loads
from ._pickle import pickle_dumps, unpickle_loads
from ._tensors import safetensors_dumps, safetensors_loads, torch_dumps, torch_loads
from ._text import decode_int, decode_text, encode_int, encode_text
from ._video import VIDEO_WRITERS, encode_video
from .tenbin import tenbin_dumps, tenbin_loads

_BOTH_WAYS: dict[str, tuple[Callable[[bytes], Any], Callable[..., bytes]]] = {
    "txt text transcript html htm": (decode_text, encode_text),
    "cls cls2 class count index inx id": (decode_int, encode_int),
    "json jsn": (decode_json, encode_json),
    "jsonl ndjson": (decode_jsonl, encode_jsonl),
    "pkl pickle pyd": (unpickle_loads, pickle_dumps),
    "pth pt": (torch_loads, torch_dumps),
    "safetensors": (safetensors_loads, safetensors_dumps),
    "npy": (npy_loads, numpy_dumps),
    "npz": (npz_loads, numpy_npz_dumps),
    "ten tenbin tb": (tenbin_loads, tenbin_dumps),
    "mp msgpack msg": (msgpack_loads, mp_dumps),
    "cbor": (cbor_loads, cbor_dumps),
}

decoders: dict[str, Callable[[bytes], Any]] = {
    name: decode for names, (decode, _) in _BOTH_WAYS.items() for name in names.split()
}


def _value_by_value(decode: Callable[[bytes], Any]) -> Callable[[list[bytes]], list[Any]]:
    return lambda column: [decode(data) for data in column]


# The fast decoders, for the values of many samples at once; a decoder that a user has added to the table has no entry.
column_decoders: dict[Callable[[bytes], Any], Callable[[list[bytes]], Any]] = {
    decode_json: decode_json_column,
    npy_loads: stack_npy,
    decode_text: _value_by_value(decode_text),
    decode_int: _value_by_value(decode_int),
}


def add_handlers(d: dict[str, Any], keys: str | list[str], value: Any) -> None:
    """Enter a codec under several extensions.

    >>> table = {}
    >>> add_handlers(table, "yaml yml", str)
    >>> sorted(table)
    ['yaml', 'yml']
    """
    for key in keys.split() if isinstance(keys, str) else keys:
        d[key] = value


def make_handlers() -> dict[str, Callable[..., bytes]]:
    """A fresh table of encoders.

    >>> make_handlers()["cls"](3)
    b'3'
    """
    handlers: dict[str, Callable[..., bytes]] = {}
    for names, (_, encode) in _BOTH_WAYS.items():
        add_handlers(handlers, names, encode)
    for name in IMAGE_FORMATS:
        handlers[name] = partial(imageencoder, format=name)
    for name in ("flac", "mp3", "ogg", "opus", "wav"):
        handlers[name] = partial(encode_audio, name)
    for name in VIDEO_WRITERS:
        handlers[name] = partial(encode_video, name)
    return handlers


default_handlers: dict[str, Callable[..., bytes]] = make_handlers()
