"""Decode: the bytes in the fields of a sample → values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, Unpack

from webdataset.arguments import in_order, require_callable
from webdataset.describe import Described, did_you_mean
from webdataset.errors import SpecError
from webdataset.flow import Columns, Pass, PerItem
from webdataset.handlers import Handler, reraise_exception
from webdataset.redact import warn

from ._ask_handler import guarded
from ._rng import rng

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from webdataset.codecs import Decoder  # loaded when something is decoded: 15 ms of the first sample


class ImageOptions(TypedDict, total=False):
    """How `decode` crops and resizes images: the options of `decode_image`."""

    size: int | tuple[int, int]
    crop: Literal["random", "window", "center"] | None
    flip: float
    scale: tuple[float, float]
    ratio: tuple[float, float]
    resize: int | None
    antialias: bool
    interpolation: Literal["bilinear", "nearest"]
    normalize: Any
    layout: Literal["hwc", "chw"] | None
    oversample: float | None
    extensions: Iterable[str]


@dataclass(frozen=True, init=False, repr=False)
class Decode(Described, PerItem):
    """Decode the fields of samples by their names.

    >>> stage = Decode()
    >>> list(stage(iter([{"__key__": "0001", "cls": b"3", "json": b"[1]"}])))
    [{'__key__': '0001', 'cls': 3, 'json': [1]}]
    >>> Decode("rgb8", only="jpg json")
    decode('rgb8', only='jpg json')

    Args:
        handlers: image specs ("rgb8", "torchrgb", "pil", …), "audio", "video", or functions of (key, data) that return
            None for fields that they do not decode; keys are such as ".jpg" or ".seg.jpg".
        pre: handlers before these; by default those that unpack `.gz` and `.zst`.
        post: handlers after these; by default the table of extensions.
        only: names of the fields to decode; the others stay bytes.
        partial: let values that are decoded already (not bytes) pass; otherwise they are an error. A field that no
            decoder takes stays bytes either way.
        handler: what to do when a sample cannot be decoded.
        image: bring the images of a spec to one size while they are decoded, as `decode_image` describes:
            `decode("rgb8", size=224, crop="random", flip=True)`.
    """

    verb: ClassVar[str] = "decode"
    args_field: ClassVar[str] = "handlers"
    kwargs_field: ClassVar[str] = "image"
    handlers: tuple[Any, ...]
    pre: tuple[Any, ...] | None = None
    post: tuple[Any, ...] | None = None
    only: str | tuple[str, ...] | None = None
    partial: bool = False
    handler: Handler = reraise_exception
    image: tuple[tuple[str, Any], ...] = ()

    def __init__(
        self,
        *handlers: Any,
        pre: Sequence[Any] | None = None,
        post: Sequence[Any] | None = None,
        only: str | Iterable[str] | None = None,
        partial: bool = False,
        handler: Handler = reraise_exception,
        **image: Unpack[ImageOptions],
    ) -> None:
        require_callable("decode", handler=handler)
        _check_image_options(handlers, image)
        self._set(
            handlers=handlers,
            pre=None if pre is None else tuple(pre),
            post=None if post is None else tuple(post),
            only=only if only is None or isinstance(only, str) else _names(only),
            partial=partial,
            handler=handler,
            image=tuple(image.items()),
        )
        self._decoder()  # wrong specs fail here, not in a worker

    def function(self, during: Pass) -> Callable[[Any], Any]:
        """The decoded sample; random crops draw from the sample's own generator."""
        decode = self._decoder().decode
        return guarded(decode if self.only is None else self._checking_names(decode), self, self.handler, during)

    def _checking_names(self, decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Warn if the first sample has none of the fields that `only` names: they are likely to be misspelt."""
        names = set(self.only.split() if isinstance(self.only, str) else self.only or ())
        unchecked = [True]

        def checked(sample: Any) -> Any:
            if unchecked and isinstance(sample, dict):
                unchecked.clear()
                if names.isdisjoint(sample):
                    found = sorted(name for name in sample if not name.startswith("__"))
                    warn(
                        f"decode(only={self.only!r}): the first sample has no such field; its fields are "
                        f"{', '.join(found)}",
                        stacklevel=2,
                    )
            return decode(sample)

        return checked

    def on_columns(self) -> Callable[[Columns], Columns] | None:
        """Decode by columns if only the table of extensions decodes; images gain more from threads."""
        chosen = self.handlers or self.pre or self.post or self.only is not None  # whose names are checked by sample
        return None if chosen else self._decoder().decode_columns

    def _decoder(self) -> Decoder:
        from webdataset.codecs import Decoder, as_handler

        handlers = [as_handler(each, **dict(self.image)) for each in self.handlers]
        return Decoder(
            [each.bind(rng) if hasattr(each, "bind") else each for each in handlers],
            pre=self.pre,
            post=self.post,
            only=self.only,
            partial=self.partial,
        )


def _names(only: Any) -> tuple[str, ...]:
    if not isinstance(only, Iterable):
        raise SpecError(f"decode(only={only!r}) names no fields", hint='for example only=["jpg", "cls"]')
    return in_order(only)


def _check_image_options(handlers: tuple[Any, ...], image: Mapping[str, Any]) -> None:
    from webdataset.codecs import DecodeImage

    unknown = image.keys() - {field.name for field in fields(DecodeImage)}
    if unknown:
        known = [*(field.name for field in fields(DecodeImage)), "pre", "post", "only", "partial", "handler"]
        raise SpecError(f"decode() has no option {', '.join(sorted(unknown))}{did_you_mean(unknown, known)}")
    if image and not any(isinstance(each, str) for each in handlers):
        raise SpecError(
            f"decode({', '.join(image)}=…) needs an image spec", hint='for example decode("rgb8", size=224)'
        )
