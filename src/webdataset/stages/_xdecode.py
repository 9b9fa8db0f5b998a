"""XDecode: decode fields by patterns of their names, with functions of a stream."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import IO, Any, ClassVar

from webdataset.arguments import require_callable
from webdataset.describe import Described
from webdataset.errors import DecodingError, MissingDependency, SpecError, UnsafeContent, add_where
from webdataset.flow import Pass, PerItem
from webdataset.handlers import Handler, reraise_exception

from ._ask_handler import guarded

StreamDecoder = Any  # a function of a binary stream, or False to leave the field as it is


def decode_bin(stream: IO[bytes]) -> bytes:
    r"""The bytes.

    >>> decode_bin(io.BytesIO(b"\x00"))
    b'\x00'
    """
    return stream.read()


def decode_text(stream: IO[bytes]) -> str:
    """UTF-8 text.

    >>> decode_text(io.BytesIO(b"a dog"))
    'a dog'
    """
    return stream.read().decode("utf-8")


def decode_pickle(stream: IO[bytes]) -> Any:
    r"""The unpickled value, under the same rules as everywhere else.

    >>> decode_pickle(io.BytesIO(b"(I1\nI2\nt."))
    (1, 2)
    """
    from webdataset.codecs import unpickle_loads

    return unpickle_loads(stream.read())


default_decoders: list[tuple[str, StreamDecoder]] = [
    ("*.bin", decode_bin),
    ("*.txt", decode_text),
    ("*.pyd", decode_pickle),
]


def find_decoder(decoders: Sequence[tuple[str, StreamDecoder]], path: str) -> StreamDecoder | None:
    """Return the decoder of the last rule whose pattern matches the last part of the path, or that with a dot before.

    >>> find_decoder([("*.txt", "first"), ("a.*", "second")], "dir/a.txt")
    'second'
    >>> find_decoder([("*.txt", "first")], "TXT")
    'first'
    """
    name = path.rpartition("/")[2].lower()
    for pattern, decoder in reversed(decoders):
        if fnmatch(name, pattern) or fnmatch(f".{name}", pattern):
            return decoder
    return None


@dataclass(frozen=True, init=False, repr=False)
class XDecode(Described, PerItem):
    """Decode fields with functions of a stream, chosen by patterns.

    >>> stage = XDecode(("*.num", lambda stream: int(stream.read())), raw=False)
    >>> list(stage([{"__key__": "0001", "a.num": b"3", "txt": b"a dog", "raw": b"0"}]))
    [{'__key__': '0001', 'a.num': 3, 'txt': 'a dog', 'raw': b'0'}]

    Args:
        rules: (pattern, decoder); later ones win, False leaves the field as it is.
        must_decode: a field without a decoder is an error; otherwise it stays bytes.
        defaults: the rules before these.
        handler: what to do when a sample cannot be decoded.
        extensions: `ext=decoder` means ("*.ext", decoder).
    """

    verb: ClassVar[str] = "xdecode"
    needs_fields: ClassVar[bool] = True
    rules: tuple[tuple[str, StreamDecoder], ...]
    must_decode: bool = True
    handler: Handler = reraise_exception

    def __init__(
        self,
        *rules: tuple[str, StreamDecoder],
        must_decode: bool = True,
        defaults: Sequence[tuple[str, StreamDecoder]] = default_decoders,
        handler: Handler = reraise_exception,
        **extensions: StreamDecoder,
    ) -> None:
        require_callable("xdecode", handler=handler)
        named = [(f"*.{name}", decoder) for name, decoder in extensions.items()]
        complete = (*defaults, *rules, *named)
        for rule in complete:
            _check_rule(rule)
        self._set(rules=complete, must_decode=must_decode, handler=handler)

    def function(self, during: Pass) -> Callable[[Any], Any]:
        """Decode one sample."""

        def decode(sample: dict[str, Any]) -> dict[str, Any]:
            return {name: self._decode(name, value, sample) for name, value in sample.items()}

        return guarded(decode, self, self.handler, during)

    def _decode(self, name: str, value: Any, sample: dict[str, Any]) -> Any:
        if name.startswith("__"):
            return value
        decoder = find_decoder(self.rules, name)
        if decoder is None and self.must_decode:
            raise DecodingError(
                sample.get("__url__"),
                sample.get("__key__"),
                name,
                sample,
                what=f"No decoder found for {name}.",
                hint="add a rule for it, or pass must_decode=False",
            )
        if decoder is None or decoder is False:
            return value
        return _apply(decoder, name, value, sample)


def _check_rule(rule: Any) -> None:
    if not isinstance(rule, tuple | list) or len(rule) != 2:
        raise SpecError(f"expected a pair of a pattern and a decoder, got {rule!r}")
    pattern, decoder = rule
    if not isinstance(pattern, str) or not (callable(decoder) or decoder is False):
        raise SpecError(f"expected a string and a function or False, got the rule {rule!r}")


def _apply(decoder: Callable[[IO[bytes]], Any], name: str, value: Any, sample: dict[str, Any]) -> Any:
    try:
        return decoder(io.BytesIO(value))
    except (MissingDependency, UnsafeContent) as error:
        add_where(error, field=name, key=sample.get("__key__"), shard=sample.get("__url__"))
        raise
    except Exception as error:
        what = f"cannot decode {name!r}: {type(error).__name__}: {error}"
        raise DecodingError(sample.get("__url__"), sample.get("__key__"), name, sample, what=what) from error
