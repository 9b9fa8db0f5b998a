"""How a field is shown, and which media type is sent to a browser, by the ending of its name."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class FieldKind(StrEnum):
    """How a field is shown."""

    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"
    JSON = "json"
    TEXT = "text"
    LABEL = "label"
    ARRAY = "array"
    PICKLE = "pickle"
    BINARY = "binary"


_ENDINGS: Final[dict[FieldKind, str]] = {
    FieldKind.IMAGE: "jpg jpeg png gif webp bmp tif tiff ppm pgm pbm pnm",
    FieldKind.AUDIO: "wav flac mp3 ogg oga opus m4a aac",
    FieldKind.VIDEO: "mp4 m4v webm mkv mov avi mpg mpeg ogv",
    FieldKind.JSON: "json jsn",
    # Markup is text here: it is shown as it is written, never rendered.
    FieldKind.TEXT: "txt text transcript jsonl csv tsv yaml yml md html htm xhtml svg xml srt vtt js css log",
    FieldKind.LABEL: "cls cls2 index inx id",
    FieldKind.ARRAY: "npy npz ten tb",
    FieldKind.PICKLE: "pyd pkl pickle pth pt",
}
_KINDS: Final = {ending: kind for kind, endings in _ENDINGS.items() for ending in endings.split()}

# The only types that are sent to a browser. None of them can contain a script that it would run.
_MEDIA: Final[dict[str, str]] = {
    "image/jpeg": "jpg jpeg",
    "image/png": "png",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/bmp": "bmp",
    "audio/wav": "wav",
    "audio/flac": "flac",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg oga opus",
    "audio/mp4": "m4a",
    "audio/aac": "aac",
    "video/mp4": "mp4 m4v mov",
    "video/webm": "webm",
    "video/x-matroska": "mkv",
    "video/ogg": "ogv",
}
_MEDIA_TYPES: Final = {ending: media for media, endings in _MEDIA.items() for ending in endings.split()}
OCTETS: Final = "application/octet-stream"


def field_kind(field: str) -> FieldKind:
    """How a field is shown.

    >>> field_kind("left.JPG"), field_kind("svg"), field_kind("x")
    (<FieldKind.IMAGE: 'image'>, <FieldKind.TEXT: 'text'>, <FieldKind.BINARY: 'binary'>)
    """
    return _KINDS.get(field.rpartition(".")[2].lower(), FieldKind.BINARY)


def media_type(field: str) -> str:
    """The media type of a field; bytes without a type for all except images, audio and video.

    >>> media_type("png"), media_type("html"), media_type("svg")
    ('image/png', 'application/octet-stream', 'application/octet-stream')
    """
    return _MEDIA_TYPES.get(field.rpartition(".")[2].lower(), OCTETS)
