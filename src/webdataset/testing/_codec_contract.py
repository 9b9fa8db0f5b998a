"""CodecContract: decoding returns the encoded value, for every extension of a codec."""

from __future__ import annotations

from typing import Any, ClassVar

from webdataset.codecs import decode_field, encode_field


class CodecContract:
    """The tests that every codec passes. Subclass it in a test module with extensions and some values.

    >>> class TestText(CodecContract):
    ...     extensions = "txt html"
    ...     values = ("", "a dog")
    >>> TestText().test_what_is_encoded_comes_back()

    `handlers` are passed to the decoder, `options` to the encoder. A lossy codec overrides `same`; a codec whose
    library writes random numbers sets `reproducible = False`.
    """

    extensions: ClassVar[str] = ""
    values: ClassVar[tuple[Any, ...]] = ()
    handlers: ClassVar[tuple[Any, ...]] = ()
    options: ClassVar[dict[str, Any]] = {}
    reproducible: ClassVar[bool] = True

    def test_what_is_encoded_comes_back(self) -> None:
        """Decoding undoes encoding."""
        for extension in self.extensions.split():
            for value in self.values:
                back = self._decode(extension, encode_field(extension, value, **self.options))
                assert self.same(value, back), f"{extension}: {value!r:.200} came back as {back!r:.200}"

    def test_names_in_front_and_capitals_do_not_matter(self) -> None:
        """Only the last part of a name counts, in any case."""
        for extension in self.extensions.split():
            for field in (f"left.{extension}", extension.upper()):
                for value in self.values:
                    assert self.same(value, self._decode(field, encode_field(field, value, **self.options)))

    def test_bytes_pass(self) -> None:
        """Bytes are not encoded again."""
        for extension in self.extensions.split():
            assert encode_field(extension, b"raw") == b"raw"

    def test_encoding_gives_the_same_bytes_again(self) -> None:
        """The same value gives the same bytes, so that shards can be compared."""
        for extension in self.extensions.split() if self.reproducible else ():
            for value in self.values:
                first = encode_field(extension, value, **self.options)
                assert first == encode_field(extension, value, **self.options)

    def same(self, given: Any, back: Any) -> bool:
        """Whether the value that came back is the one that was given."""
        if type(given) is not type(back):
            return False
        if isinstance(given, dict):
            return given.keys() == back.keys() and all(self.same(given[key], back[key]) for key in given)
        if isinstance(given, list | tuple):
            return len(given) == len(back) and all(map(self.same, given, back))
        if hasattr(given, "dtype"):
            return given.dtype == back.dtype and given.shape == back.shape and bool((given == back).all())
        return bool(given == back)

    def _decode(self, field: str, data: bytes) -> Any:
        return decode_field(field, data, *self.handlers)
