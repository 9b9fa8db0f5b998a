"""Which field of a sample comes from which field of a record: `image/encoded:jpg,image/class/label:cls`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from webdataset.codecs import decoders
from webdataset.errors import DecodingError, FormatError, SpecError, Where

from ._record_format import Record
from ._tf_example import Steps

KEY = "__key__"
# Fields that readers add to samples; they are not part of the data.
ADDED = frozenset({"__url__", "__pad__", "__local_path__"})
INTEGERS = frozenset({"cls", "cls2", "class", "count", "index", "inx", "id"})
TEXTS = frozenset({"txt", "text", "transcript", "html", "htm"})

_SPECIAL = re.compile(r"[\\,:]|^\s|\s$|\[(?=\]$)")
_MANY = re.compile(r"(?:\\.|[^\\])*?\[\]", re.DOTALL)
_ESCAPED = re.compile(r"\\([\\,:\s\[])")


class Pair(NamedTuple):
    """One field: its source and its name. `many` keeps a list of values as a list."""

    source: str
    field: str
    many: bool = False

    def __str__(self) -> str:
        return f"{_escaped(self.source)}{'[]' if self.many else ''}:{_escaped(self.field)}"


@dataclass(frozen=True, slots=True)
class FieldMapping:
    r"""Names of a record → fields of a sample.

    >>> mapping = FieldMapping.parse("image/encoded:jpg,image/class/label:cls,name:__key__")
    >>> mapping.sample({"image/encoded": b"...", "image/class/label": 7, "name": "n01", "unused": 1}, "0")
    {'__key__': 'n01', 'jpg': b'...', 'cls': 7}
    >>> print(mapping.inverted())
    jpg:image/encoded,cls:image/class/label,__key__:name

    In formats where every value is a list (TFRecord), a list of one value is taken for that value, and a longer one is
    an error; `ids[]:ids.npy` keeps the list. Write a backslash before commas, colons and backslashes in names, before
    blanks at their ends, and before `[]` that is part of a name.
    """

    pairs: tuple[Pair, ...]

    @classmethod
    def parse(cls, text: str) -> FieldMapping:
        """Parse a mapping."""
        pairs = []
        for part in _split(text, ","):
            names = _split(part, ":")
            if len(names) > 2 or not names[0]:
                raise SpecError(f"{part!r} is not SOURCE:FIELD", Where(), hint="for example image/encoded:jpg")
            many = _MANY.fullmatch(names[0]) is not None
            source = names[0].removesuffix("[]") if many else names[0]
            field = names[-1] if len(names) == 2 else source
            pairs.append(Pair(_plain(source), _plain(field), many))
        return cls(_checked(pairs))

    @classmethod
    def of(cls, mapping: Any) -> FieldMapping:
        """A mapping from any form that a user may write: text, a dict, or a mapping.

        >>> print(FieldMapping.of({"image": "jpg"}))
        image:jpg
        """
        if isinstance(mapping, FieldMapping):
            return mapping
        if isinstance(mapping, str):
            return cls.parse(mapping)
        if isinstance(mapping, dict):
            names = ((source, source.removesuffix("[]"), field) for source, field in mapping.items())
            return cls(_checked(Pair(source, field, source != given) for given, source, field in names))
        raise SpecError(f"mapping={mapping!r}: expected pairs such as 'image/encoded:jpg,image/class/label:cls'")

    def __str__(self) -> str:
        return ",".join(map(str, self.pairs))

    def inverted(self) -> FieldMapping:
        """The inverse mapping."""
        return FieldMapping(tuple(Pair(field, source) for source, field, _ in self.pairs))

    def with_key(self, name: str | None) -> FieldMapping:
        """The same mapping with the key taken from a field.

        >>> print(FieldMapping.parse("a:txt").with_key("id"))
        a:txt,id:__key__
        """
        if name is None:
            return self
        others = tuple(pair for pair in self.pairs if pair.field != KEY)
        return FieldMapping((*others, Pair(name, KEY)))

    def sample(self, record: Record, key: str, *, repeated: bool = False, decode: bool = False) -> Record:
        """The sample of a record. Fields that the record does not have, or has as None, are left out.

        Args:
            record: what a format reads.
            key: the key for records without one.
            repeated: every value is a list.
            decode: the record's fields are typed by their extension, and the sample's are not.
        """
        sample: Record = {KEY: key}
        for source, field, many in self.pairs:
            value = record.get(source)
            if value is None:
                if field == KEY:
                    raise FormatError("the key is missing", Where(field=source), hint="take it from another field")
                continue
            if repeated and not many:
                value = _single_value(source, value)
            if field == KEY:
                sample[KEY] = key_text(value)
            elif decode:
                sample[field] = _decoded(source, field, value)
            else:
                sample[field] = fitted(field, value)
        return sample


def key_text(value: Any) -> str:
    """A value as a key: text, without the dots that would end it.

    >>> key_text(b"n01/img.JPEG"), key_text(17), key_text("v1.0/a.b.png")
    ('n01/img', '17', 'v1.0/a_b')
    """
    text = str(value, "utf-8") if isinstance(value, bytes) else str(value)
    folder, slash, base = text.rpartition("/")
    stem, dot, suffix = base.rpartition(".")
    known = dot and suffix.isalnum() and not suffix.isdigit() and len(suffix) <= 4
    return folder + slash + (stem if known else base).replace(".", "_")


@lru_cache(maxsize=1024)  # called for every field of every sample
def extension_of(field: str) -> str:
    """The part of a field name that determines its type.

    >>> extension_of("left.png"), extension_of("cls")
    ('png', 'cls')
    """
    return field.rpartition(".")[2].lower()


def fitted(field: str, value: Any) -> Any:
    """A value in the form that the encoder of its field expects: NumPy's integers for `cls` become Python's, say.

    >>> fitted("cls", np.array([7])), fitted("txt", b"hello")
    (7, b'hello')
    """
    if type(value) is bytes:
        return value
    if extension_of(field) in INTEGERS and isinstance(value, np.ndarray | np.integer) and value.size == 1:
        return value.item()
    if isinstance(value, Steps) and extension_of(field) == "npz":
        return {f"{number:06d}": np.asarray(step) for number, step in enumerate(value)}
    return list(value) if isinstance(value, Steps) else value


def _single_value(source: str, value: Any) -> Any:
    if type(value) is list and len(value) == 1:
        return value[0]
    if isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim):
        if len(value) != 1:
            raise FormatError(
                f"expected one value, got {len(value)}",
                Where(field=source),
                hint=f"keep the list with {source}[]:… in the mapping",
            )
        return value[0]
    return value


def _decoded(source: str, field: str, value: Any) -> Any:
    """The value of a tar field for a format with types: numbers and text are decoded, others if their type changes."""
    if not isinstance(value, bytes):
        return value
    extension = extension_of(source)
    plain = extension in INTEGERS or extension in TEXTS
    renamed = extension_of(field) != extension and extension in decoders
    if not plain and not renamed:
        return value
    try:
        return decoders[extension](value)
    except Exception as error:
        raise DecodingError(None, None, source, what=f"{error}", hint=f"keep the bytes with {source}:…") from error


def _checked(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    found = tuple(pairs)
    fields = [pair.field for pair in found]
    twice = sorted({field for field in fields if fields.count(field) > 1})
    if twice:
        raise SpecError(f"the mapping has the field {', '.join(twice)} twice", hint="give each field one source")
    return found


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators without a backslash before them, without the blanks around them."""
    parts = [""]
    for character in re.findall(r"\\.|.", text, re.DOTALL):
        if character == separator:
            parts.append("")
        else:
            parts[-1] += character
    return [re.sub(r"^\s+|(?<!\\)\s+$", "", part) for part in parts]


def _escaped(name: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", name)


def _plain(name: str) -> str:
    return _ESCAPED.sub(r"\1", name)
