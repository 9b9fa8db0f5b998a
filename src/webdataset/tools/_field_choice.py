"""Which fields of a sample to keep, and under which names: the `-f` of `cat`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from webdataset.errors import FormatError, SpecError, Where

from ._read_inputs import Sample


@dataclass(frozen=True)
class FieldChoice:
    """Keep fields: `name`, `a,b` (the first that is there, under its own name), `new:old1,old2` (renamed).

    >>> choice = FieldChoice("image:jpg,png cls")
    >>> list(choice(iter([{"__key__": "a", "png": b"...", "cls": b"3", "txt": b"x"}])))
    [{'__key__': 'a', 'image': b'...', 'cls': b'3'}]

    A sample without a field that is asked for is an error.
    """

    text: str

    def __post_init__(self) -> None:
        self.parsed()

    def parsed(self) -> list[tuple[str | None, list[str]]]:
        """(new name or None, old names) of each word."""
        words = []
        for word in self.text.split():
            new, colon, old = word.rpartition(":")
            names = old.split(",")
            if (colon and not new) or not all(names) or any(name.startswith("_") for name in (new, *names)):
                raise SpecError(f"{word!r} does not choose a field", hint="write jpg, 'jpg,png' or 'image:jpg,png'")
            words.append((new or None, names))
        if not words:
            raise SpecError("no field is chosen", hint="name at least one field")
        return words

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        """The samples with these fields: this is a stage."""
        words = self.parsed()
        for sample in samples:
            chosen: Sample = {"__key__": sample["__key__"]}
            for new, names in words:
                found = next((name for name in names if name in sample), None)
                if found is None:
                    raise FormatError(
                        f"the sample has none of the fields {', '.join(names)}",
                        Where(key=sample["__key__"], shard=sample.get("__url__")),
                        hint="select the samples that have it first: wds select --field",
                    )
                chosen[new or found] = sample[found]
            yield chosen
