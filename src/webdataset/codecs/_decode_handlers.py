"""Handlers: what `decode(...)` accepts. A handler is a function of (key, data), with keys like ".jpg" or ".seg.jpg".

It returns the value, None (for fields that it does not decode), or `Continue` (other bytes under another name, for the
handlers that follow). The handlers of this package also determine from the name alone what they do, so that a decoder
calls them once per field name and not once per sample. The methods that a handler may have for it:

    resolve(key)              the function of the data, or None
    unwrap(key)               (inner key, function from packed to unpacked bytes), or None
    for_sample(data, sample)  called instead of the resolved function, for handlers that need the sample
    bind(rng)                 the handler with `rng(sample, salt)` as its random generator, for the stage that decodes
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from webdataset.errors import SpecError
from webdataset.flow import StepByStepError

from ._audio import AudioHandler
from ._codec_tables import column_decoders, decoders
from ._compressed_fields import UNPACK
from ._decode_image import DecodeImage
from ._image_specs import ImageHandler, imagespecs
from ._video import VideoHandler

Handler = Any  # a callable (key, data) -> value | None | Continue


@dataclass(frozen=True, slots=True)
class Continue:
    """The result of a handler that passes another key and other data to the handlers that follow.

    >>> Continue(".txt", b"hello")
    Continue(key='.txt', data=b'hello')
    """

    key: str
    data: bytes


@dataclass(frozen=True, slots=True)
class SuffixFilter:
    """A handler that unpacks fields with a suffix; the handlers that follow decode the rest of the name.

    >>> SuffixFilter("gz")(".txt", b"hello") is None
    True
    """

    suffix: str

    def __call__(self, key: str, data: bytes) -> Continue | None:
        """The unpacked bytes under the inner name, or None."""
        inner = self.unwrap(key)
        return None if inner is None else Continue(inner[0], inner[1](data))

    def unwrap(self, key: str) -> tuple[str, Callable[[bytes], bytes]] | None:
        """The inner name and the function that unpacks, or None."""
        inner, _, suffix = key.rpartition(".")
        return (inner, UNPACK[self.suffix]) if suffix.lower() == self.suffix else None


gzfilter = SuffixFilter("gz")
zstfilter = SuffixFilter("zst")


@dataclass(frozen=True, slots=True)
class BasicHandlers:
    """The last handler: the table `decoders`, by the last part of the name.

    >>> BasicHandlers()(".label.cls", b"3")
    3
    """

    def __call__(self, key: str, data: bytes) -> Any:
        """The value, or None if the extension is not in the table."""
        decode = decoders.get(key.rpartition(".")[2].lower())
        return None if decode is None else decode(data)

    def resolve(self, key: str) -> Callable[[bytes], Any]:
        """The function for this name."""
        return partial(self.step(key), sample=None)

    def step(self, key: str) -> Callable[..., Any]:
        """The same as a function of (data, sample), which reads the table each time, because users may change it."""
        extension = key.rpartition(".")[2].lower()

        def decode(data: bytes, sample: Any) -> Any:
            found = decoders.get(extension)
            return data if found is None else found(data)

        return decode

    def column_step(self, key: str) -> Callable[[list[bytes]], Any]:
        """The same for a column of data; `StepByStepError` for decoders that are slow or a user's own."""
        found = decoders.get(key.rpartition(".")[2].lower())
        if found is None:
            return list
        if found not in column_decoders:
            raise StepByStepError
        return column_decoders[found]


basichandlers = BasicHandlers()

default_pre_handlers: list[Handler] = [gzfilter, zstfilter]
default_post_handlers: list[Handler] = [basichandlers]


@dataclass(frozen=True, slots=True, init=False)
class ExtensionHandler:
    """A handler that applies a function of the data to the fields of some extensions."""

    extensions: tuple[tuple[str, ...], ...]
    f: Callable[[bytes], Any]

    def __init__(self, extensions: str | list[str], f: Callable[[bytes], Any]) -> None:
        names: Any = extensions.split() if isinstance(extensions, str) else extensions
        if not names or not isinstance(names, list | tuple) or not callable(f):
            raise SpecError(f"handle_extension({extensions!r}, {f!r}) needs extensions and a function of the data")
        parts = tuple(tuple(name.lower().lstrip(".").split(".")) for name in names)
        object.__setattr__(self, "extensions", parts)
        object.__setattr__(self, "f", f)

    def __call__(self, key: str, data: bytes) -> Any:
        """The decoded value, or None if the name does not end in one of the extensions."""
        return None if self.resolve(key) is None else self.f(data)

    def resolve(self, key: str) -> Callable[[bytes], Any] | None:
        """The function, or None."""
        parts = tuple(key.lower().split("."))
        return self.f if any(parts[-len(each) :] == each for each in self.extensions) else None


def handle_extension(extensions: str, f: Callable[[bytes], Any]) -> ExtensionHandler:
    """Decode the fields whose names end in one of the extensions with a function of the data.

    >>> handler = handle_extension("png left.jpg", len)
    >>> handler(".a.png", b"12345"), handler(".left.jpg", b"123"), handler(".right.jpg", b"")
    (5, 3, None)

    Args:
        extensions: separated by blanks, in any case, with or without a leading dot.
        f: function of the bytes; if it returns None, the handlers that follow are called.
    """
    return ExtensionHandler(extensions, f)


def call_extension_handler(key: str, data: bytes, f: Callable[[bytes], Any], extensions: str | list[str]) -> Any:
    """Decode one field with `handle_extension(extensions, f)`.

    >>> call_extension_handler(".a.png", b"12345", len, "png jpg")
    5
    """
    return ExtensionHandler(extensions, f)(key, data)


def as_handler(spec: Any, **image: Any) -> Handler:
    """A handler: a callable as it is, an image spec, "audio" or "video"; `image` are options of `DecodeImage`.

    >>> as_handler("rgb8")
    ImageHandler(imagespec='rgb8', ...)
    >>> as_handler("rgb8", size=224, crop="center")
    DecodeImage(imagespec='rgb8', size=224, crop='center', ...)
    """
    if isinstance(spec, str):
        named: dict[str, Any] = {"audio": AudioHandler, "video": VideoHandler}
        if spec.lower() in named:
            return named[spec.lower()]()
        return DecodeImage(spec, **image) if image else ImageHandler(spec)
    if not callable(spec):
        raise SpecError(
            f"{spec!r} cannot decode",
            hint=f"give a function of (key, data), 'audio', 'video', or one of {', '.join(imagespecs)}",
        )
    return spec
