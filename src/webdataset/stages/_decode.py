"""Decode: the bytes in the fields of a sample → values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webdataset.codecs import Decoder, as_handler
from webdataset.errors import SpecError
from webdataset.flow import DROP, EndOfStreamError, Pass, PerItem
from webdataset.handlers import Handler, reraise_exception

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


@dataclass(frozen=True, init=False, repr=False)
class Decode(PerItem):
    """Decode the fields of samples by their names.

    >>> stage = Decode()
    >>> list(stage(iter([{"__key__": "0001", "cls": b"3", "json": b"[1]"}])))
    [{'__key__': '0001', 'cls': 3, 'json': [1]}]
    >>> Decode("rgb8", only="jpg json")
    Decode('rgb8', only='jpg json')

    Args:
        handlers: image specs ("rgb8", "torchrgb", "pil", …), "audio", "video", or functions of (key, data) that
            return None for what is not theirs; keys look like ".jpg" or ".seg.jpg".
        pre: handlers before these; by default those that unpack `.gz` and `.zst`.
        post: handlers after these; by default the table of extensions.
        only: names of the fields to decode; the others stay bytes.
        partial: let values that are not bytes pass.
        handler: what to do when a sample cannot be decoded.
    """

    handlers: tuple[Any, ...]
    pre: tuple[Any, ...] | None
    post: tuple[Any, ...] | None
    only: str | tuple[str, ...] | None
    partial: bool
    handler: Handler

    def __init__(
        self,
        *handlers: Any,
        pre: Sequence[Any] | None = None,
        post: Sequence[Any] | None = None,
        only: str | Iterable[str] | None = None,
        partial: bool = False,
        handler: Handler = reraise_exception,
    ) -> None:
        if not callable(handler):
            raise SpecError(f"handler={handler!r} is not a function", hint="use wds.warn_and_continue, for example")
        settings = {
            "handlers": handlers,
            "pre": None if pre is None else tuple(pre),
            "post": None if post is None else tuple(post),
            "only": only if only is None or isinstance(only, str) else tuple(only),
            "partial": partial,
            "handler": handler,
        }
        for name, value in settings.items():
            object.__setattr__(self, name, value)
        self._decoder(Pass())  # wrong specs fail here, not in a worker

    def __repr__(self) -> str:
        shown = [repr(each) for each in self.handlers]
        defaults = {"pre": None, "post": None, "only": None, "partial": False, "handler": reraise_exception}
        for name, default in defaults.items():
            value = getattr(self, name)
            if value is not default:
                shown.append(f"{name}={getattr(value, '__name__', None) or repr(value)}")
        return f"Decode({', '.join(shown)})"

    def function(self, during: Pass) -> Callable[[Any], Any]:
        """Decode one sample; random decoders draw from this pass."""
        decode, handler = self._decoder(during).decode, self.handler
        if handler is reraise_exception:
            return decode

        def decode_or_ask(sample: Any) -> Any:
            try:
                return decode(sample)
            except Exception as exn:
                if handler(exn):
                    return DROP
                raise EndOfStreamError from exn

        return decode_or_ask

    def _decoder(self, during: Pass) -> Decoder:
        return Decoder(
            [_bound(as_handler(each), during) for each in self.handlers],
            pre=self.pre,
            post=self.post,
            only=self.only,
            partial=self.partial,
        )


def _bound(handler: Any, during: Pass) -> Any:
    return handler.bind(during) if hasattr(handler, "bind") else handler


decode = Decode
