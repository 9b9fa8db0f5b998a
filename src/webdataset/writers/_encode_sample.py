"""From a sample of values to a sample of bytes: what `encoder=` may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from webdataset.arguments import require_callable
from webdataset.codecs import encode_field
from webdataset.errors import SpecError, WebDatasetError, add_where

_COMPRESSED = (".gz", ".zst")

Sample = dict[str, Any]


def make_encoder(
    spec: bool | Mapping[str, Callable[[Any], Any]] | Callable[[Sample], Sample] | None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[[Sample], Sample]:
    """A function from samples to samples of bytes.

    >>> make_encoder(True)({"__key__": "a", "json": {"x": 1}, "txt": "hello", "bin": b"raw"})
    {'__key__': 'a', 'json': b'{"x": 1}', 'txt': b'hello', 'bin': b'raw'}
    >>> make_encoder({"hex": lambda n: b"%x" % n})({"__key__": "a", "hex": 255})
    {'__key__': 'a', 'hex': b'ff'}

    Args:
        spec: True encodes by extension, False takes bytes only, a dict maps field names (`imu.z`) or extensions (`z`)
            to functions, and any other callable turns a whole sample into one of bytes.
        options: keyword arguments for the encoders, by field name or extension: `{"jpg": {"quality": 85}}`.
    """
    if options and spec is not True:
        raise SpecError("encoder_options= is for encoder=True", hint="pass the options to your own encoder")
    if spec is True:
        return _by_extension(dict(options or {}))
    if spec is None or spec is False:
        return _unchanged
    if isinstance(spec, dict):
        return _by_table(spec)
    if callable(spec):
        return spec
    raise SpecError(
        f"encoder={spec!r} is not an encoder",
        hint="use True, False, a dict of functions by extension, or a function of a sample",
    )


def _unchanged(sample: Sample) -> Sample:
    return sample


def _by_extension(options: dict[str, Mapping[str, Any]]) -> Callable[[Sample], Sample]:
    for name, arguments in options.items():
        if not isinstance(arguments, dict):
            raise SpecError(f"encoder_options[{name!r}]={arguments!r}: expected a dict of keyword arguments")

    def encode(field: str, value: Any) -> Any:
        arguments = options.get(field) or options.get(_extension(field)) or {}
        return encode_field(field, value, **arguments)

    return _each_field(encode if options else encode_field)


def _by_table(table: Mapping[str, Callable[[Any], Any]]) -> Callable[[Sample], Sample]:
    for name, function in table.items():
        require_callable("encoder", **{name: function})

    return _each_field(lambda field, value: encode_field(field, value, table))


def _each_field(encode: Callable[[str, Any], Any]) -> Callable[[Sample], Sample]:
    """Apply `encode` to every field except metadata, and bytes whose name has no compressed ending."""

    def encode_sample(sample: Sample) -> Sample:
        encoded = {}
        field = ""
        try:
            for field, value in sample.items():
                ready = (type(value) is bytes and not field.endswith(_COMPRESSED)) or field.startswith("_")
                encoded[field] = value if ready else encode(field, value)
        except WebDatasetError as error:
            add_where(error, field=field)
            raise
        return encoded

    return encode_sample


def _extension(field: str) -> str:
    """Return the part of a field name that is its format: `seg.jpg.gz` is a `jpg`."""
    for suffix in _COMPRESSED:
        field = field.removesuffix(suffix)
    return field.rpartition(".")[2].lower()
