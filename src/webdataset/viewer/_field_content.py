"""The content of one field as JSON: text, a tree, numbers, the peaks of a sound, the outline of an array, bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

from webdataset.errors import WebDatasetError
from webdataset.index import SeekableRange
from webdataset.optional import require

from ._background_jobs import error_words
from ._field_kind import FieldKind, field_kind
from ._shard_view import Member, ShardView
from ._thumbnail import check_fetch, decoding, undecodable

_MOST_TEXT = 200_000
_MOST_JSON = 5_000_000
_MOST_HEX = 4096
_PEAKS = 240
_SECONDS = 30
_PLOTTED = 400


def field_content(view: ShardView, number: int, member: Member) -> dict[str, Any]:
    """The content of a field for the page; errors are part of it."""
    kind = field_kind(member.field)
    found = {"field": member.field, "kind": kind.value, "size": member.size, "offset": member.offset}
    try:
        return found | _READERS.get(kind, _hex)(view, number, member)
    except Exception as error:  # of any class, from a decoder
        content: dict[str, Any] = {**found, "problem": error_words(error)}
        try:
            return content | _hex(view, number, member)
        except WebDatasetError:
            return content


def head(view: ShardView, number: int, member: Member, length: int) -> bytes:
    """The first bytes of a field."""
    source, offset = view.opened(number, member)
    return source.read(offset, min(length, member.size))


def open_member(view: ShardView, number: int, member: Member) -> SeekableRange:
    """A field as a file."""
    source, offset = view.opened(number, member)
    return SeekableRange(source, offset, member.size)


def _text(view: ShardView, number: int, member: Member) -> dict[str, Any]:
    text = head(view, number, member, _MOST_TEXT).decode("utf-8", "replace")
    return {"text": text, "shortened": member.size > _MOST_TEXT}


def _json(view: ShardView, number: int, member: Member) -> dict[str, Any]:
    if member.size > _MOST_JSON:
        return _text(view, number, member)
    data = head(view, number, member, _MOST_JSON)
    try:
        return {"value": json.loads(data, parse_constant=str)}
    except (ValueError, RecursionError) as error:
        problem = error_words(undecodable(f"this is not JSON: {error}"))
        return {"text": data[:_MOST_TEXT].decode("utf-8", "replace"), "problem": problem}


def _hex(view: ShardView, number: int, member: Member) -> dict[str, Any]:
    return {"hex": head(view, number, member, _MOST_HEX).hex(), "shortened": member.size > _MOST_HEX}


def _pickle(view: ShardView, number: int, member: Member) -> dict[str, Any]:
    note = "Pickles can run code, so they are not loaded here."
    return {"note": note} | _hex(view, number, member)


def _audio(view: ShardView, number: int, member: Member) -> dict[str, Any]:
    return waveform(open_member(view, number, member))


def waveform(file: SeekableRange) -> dict[str, Any]:
    """Length, rate, channels, and the peaks of the first seconds of a sound."""
    soundfile = require("soundfile", extra="audio", why="to draw sounds")
    import numpy as np

    with decoding("the sound"), soundfile.SoundFile(io.BufferedReader(file, 1 << 18)) as sound:
        frames = min(sound.frames, _SECONDS * sound.samplerate, 10_000_000 // max(1, sound.channels))
        values = np.abs(sound.read(frames, dtype="float32", always_2d=True)).max(axis=1, initial=0.0)
        rate, channels, total = sound.samplerate, sound.channels, sound.frames
    edges = np.linspace(0, len(values), min(_PEAKS, max(1, len(values))) + 1).astype(int)[:-1]
    peaks = np.maximum.reduceat(values, edges) if len(values) else np.zeros(0)
    return {
        "rate": rate,
        "channels": channels,
        "seconds": total / rate,
        "shown": len(values) / rate,
        "peaks": [round(float(peak), 3) for peak in np.nan_to_num(peaks)],
    }


def load_array(view: ShardView, number: int, member: Member) -> Any:
    """Load an array; arrays of objects, which are pickles, are refused."""
    from webdataset.codecs import decode_field, npy_loads

    check_fetch(member.size)
    data = head(view, number, member, member.size)
    if member.field.endswith("npy"):
        return npy_loads(data)
    return decode_field(member.field, data)


def _array(view: ShardView, number: int, member: Member) -> dict[str, Any]:
    loaded = load_array(view, number, member)
    if hasattr(loaded, "dtype"):
        return {"arrays": [outline("", loaded)]}
    named = loaded.items() if hasattr(loaded, "items") else enumerate(loaded)
    return {"arrays": [outline(str(name), each) for name, each in list(named)[:16]]}


def outline(name: str, value: Any) -> dict[str, Any]:
    """Shape, type, range and a few values of an array.

    >>> import numpy as np
    >>> outline("x", np.arange(3))["range"]
    [0.0, 2.0, 1.0]
    """
    import numpy as np

    array = np.asarray(value)
    found: dict[str, Any] = {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
    if array.dtype.kind not in "biuf" or not array.size:
        return found | {"values": [str(each) for each in array.reshape(-1)[:32]]}
    flat = array.reshape(-1)
    floats = np.nan_to_num(flat[:: max(1, flat.size // 1_000_000)].astype(np.float64))
    found["range"] = [float(floats.min()), float(floats.max()), float(floats.mean())]
    found["picture"] = array.ndim in {2, 3} and min(array.shape[:2]) > 1
    found["values"] = [each.item() if np.isfinite(each) else str(each) for each in flat[:32]]
    if array.ndim == 1 and array.size > 1:
        found["plot"] = floats[:: max(1, floats.size // _PLOTTED)].round(6).tolist()
    return found


def _nothing(_view: ShardView, _number: int, _member: Member) -> dict[str, Any]:
    return {}


_READERS: dict[FieldKind, Callable[[ShardView, int, Member], dict[str, Any]]] = {
    FieldKind.TEXT: _text,
    FieldKind.LABEL: _text,
    FieldKind.JSON: _json,
    FieldKind.AUDIO: _audio,
    FieldKind.ARRAY: _array,
    FieldKind.PICKLE: _pickle,
    FieldKind.IMAGE: _nothing,
    FieldKind.VIDEO: _nothing,
}
