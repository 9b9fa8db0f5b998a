"""Field names for the records of another format: a guess from the first ones, in a form that can be edited."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from webdataset.codecs import AUDIO_EXTENSIONS, IMAGE_EXTENSIONS, VIDEO_EXTENSIONS, decoders
from webdataset.errors import SpecError

from ._field_mapping import INTEGERS, KEY, FieldMapping, Pair, extension_of
from ._record_format import Record
from ._tf_example import Steps

KNOWN_EXTENSIONS = frozenset({*IMAGE_EXTENSIONS, *AUDIO_EXTENSIONS, *VIDEO_EXTENSIONS, *decoders, "bin"})
_MAGIC = (
    (b"\xff\xd8\xff", "jpg"),
    (b"\x89PNG\r\n", "png"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"fLaC", "flac"),
    (b"OggS", "ogg"),
    (b"ID3", "mp3"),
    (b"\xff\xfb", "mp3"),
    (b"\x93NUMPY", "npy"),
    (b"\x1aE\xdf\xa3", "mkv"),
)
# A number under one of these names is the class of the sample.
_LABELS = frozenset({"label", "labels", "cls", "class", "target", "y", "fine_label", "class_id"})
_IMAGES = frozenset({"image", "img", "pixels", "picture", "data", "x", "images"})


def guess_mapping(records: Sequence[Record], *, by_extension: bool = True, repeated: bool = False) -> FieldMapping:
    r"""A mapping that keeps every field of these records.

    >>> record = {"image/encoded": b"\xff\xd8\xff\xe0", "image/class/label": 7, "image/class/text": "cat", "id": "a"}
    >>> print(guess_mapping([record]))
    image/encoded:jpg,image/class/label:cls,image/class/text:image_class_text.txt,id:id.txt

    Args:
        records: the first records of a dataset; a field that none of them has is not in the mapping.
        by_extension: the target determines types by extensions, as tar shards do. Otherwise names stay as they are.
        repeated: every value of the records is a list.
    """
    values: dict[str, list[Any]] = {}
    for record in records:
        for name, value in record.items():
            if value is not None:
                values.setdefault(name, []).append(value)
    if not values:
        raise SpecError("there is no record to guess a mapping from", hint="give one with mapping=")
    many = {name for name, found in values.items() if repeated and any(_is_many(value) for value in found)}
    if not by_extension:
        return FieldMapping(tuple(Pair(name, name, name in many) for name in values))
    single = {
        name: [value[0] for value in found] if repeated and name not in many else found
        for name, found in values.items()
    }
    guesses = {name: _guess(name, found, texts=repeated) for name, found in single.items() if name != KEY}
    pairs = [Pair(name, field, name in many) for name, field in _short_names(guesses).items()]
    return FieldMapping(tuple(pairs + [Pair(KEY, KEY)] * (KEY in values)))


def _is_many(value: Any) -> bool:
    return isinstance(value, Steps) or len(value) != 1


def _guess(name: str, values: list[Any], *, texts: bool) -> tuple[str, bool]:
    """(field, whether the name can be shortened to its extension). `texts`: the format stores text as bytes."""
    stem = re.sub(r"[^0-9a-z_.-]+", "_", name.lower()).strip("._") or "field"
    own = extension_of(stem)
    if _says_type(own, values):
        return stem, False
    last = stem.rpartition("_")[2]
    extension = _extension(values, is_image=last in _IMAGES, texts=texts)
    if own == extension:
        return stem, False
    media = extension in IMAGE_EXTENSIONS or extension in AUDIO_EXTENSIONS or extension in VIDEO_EXTENSIONS
    short = media or (extension == "cls" and (last in _LABELS or stem in _LABELS)) or stem == extension
    return f"{stem}.{extension}", short


def _says_type(own: str, values: list[Any]) -> bool:
    """Whether the name ends with the type already, as after a conversion from tar shards."""
    if own in INTEGERS:
        return all(_is_integer(value) or (isinstance(value, bytes) and value.strip().isdigit()) for value in values)
    if own not in KNOWN_EXTENSIONS or own in _IMAGES or not all(isinstance(value, bytes) for value in values):
        return False
    found = _magic(values[0])
    return found is None or own == found or {own, found} == {"jpg", "jpeg"}


def _short_names(guesses: dict[str, tuple[str, bool]]) -> dict[str, str]:
    """`jpg` instead of `image_encoded.jpg`, where there is one image."""
    taken = Counter(field for field, short in guesses.values() if not short)
    wanted = Counter(extension_of(field) for field, short in guesses.values() if short)
    names: dict[str, str] = {}
    for name, (field, short) in guesses.items():
        extension = extension_of(field)
        chosen = extension if short and wanted[extension] == 1 and not taken[extension] else field
        while chosen in names.values():
            chosen = f"{len(names)}_{chosen}"
        names[name] = chosen
    return names


def _extension(values: list[Any], *, is_image: bool, texts: bool) -> str:
    first = values[0]
    if all(isinstance(value, bytes) for value in values):
        found = _magic(first)
        if found == "npy" and not all(map(_is_npy, values)):  # a field of this name is decoded on the way back
            found = None
        return found or ("txt" if texts and all(map(_is_text, values)) else "bin")
    if all(isinstance(value, str) for value in values):
        return "txt"
    if all(_is_integer(value) for value in values):
        return "cls"
    if all(isinstance(value, np.ndarray | np.generic | float | bool) for value in values):
        return "png" if is_image and all(_is_picture(value) for value in values) else "npy"
    return "mp" if any(map(_has_bytes, values)) else "npz" if isinstance(first, Steps) else "json"


def _has_bytes(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return isinstance(value, bytes) or any(map(_has_bytes, inner))


def _magic(data: bytes) -> str | None:
    """The extension of the format that the first bytes identify."""
    if data[:4] == b"RIFF":
        return {b"WEBP": "webp", b"WAVE": "wav", b"AVI ": "avi"}.get(data[8:12])
    if data[4:8] == b"ftyp":
        return "mp4"
    return next((extension for magic, extension in _MAGIC if data.startswith(magic)), None)


def _is_npy(value: bytes) -> bool:
    try:
        decoders["npy"](value)
    except Exception:  # of any class, for bytes that are not an array
        return False
    return True


def _is_text(value: bytes) -> bool:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character in "\t\n\r" for character in text)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_picture(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.uint8
        and (value.ndim == 2 or (value.ndim == 3 and value.shape[2] == 3))
        and value.size > 0
    )
