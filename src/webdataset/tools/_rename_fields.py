"""`rename`: fields and keys under other names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from webdataset.errors import FormatError, SpecError
from webdataset.flow import Stage

from ._cat import numbered_keys
from ._read_inputs import Inputs, Sample, where_of
from ._report import Report
from ._run_stages import transform
from ._verb_options import DEFAULTS, Options


@dataclass(frozen=True)
class Renaming:
    """A stage that gives fields and keys new names.

    >>> renaming = Renaming({"jpg": "jpeg"}, drop=("txt",), key=(r"^train/", ""))
    >>> list(renaming(iter([{"__key__": "train/1", "jpeg": b"...", "txt": b"x"}])))
    [{'__key__': '1', 'jpg': b'...'}]

    Attributes:
        fields: new name → old name; `a,b` is the first that a sample has. A sample without it stays as it is.
        drop: fields to leave out.
        key: (regular expression, replacement) for keys.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    key: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        try:
            re.compile(self.key[0] if self.key else "")
        except re.error as error:
            raise SpecError(f"{self.key} cannot be replaced: {error}", hint="write 'PATTERN=REPLACEMENT'") from error

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        """The samples with new names: this is a stage."""
        pattern = re.compile(self.key[0]) if self.key else None
        olds = {old: new for new, names in self.fields.items() for old in names.split(",")}
        for sample in samples:
            renamed: Sample = {}
            for name, value in sample.items():
                new = olds.get(name, name)
                if name in self.drop:
                    continue
                if new in renamed or (new != name and new in sample and new not in olds and new not in self.drop):
                    raise FormatError(
                        f"the field {name!r} cannot be renamed to {new!r}, which exists already",
                        where_of(sample),
                        hint="drop one of them first",
                    )
                renamed[new] = value
            if pattern is not None and self.key is not None:
                renamed["__key__"] = pattern.sub(self.key[1], sample["__key__"])
            yield renamed


def rename(
    inputs: Inputs,
    output: str | os.PathLike[str],
    options: Options = DEFAULTS,
    *,
    fields: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    key: tuple[str, str] | None = None,
    rekey: str | None = None,
) -> Report:
    """Write the samples with other names of fields and keys.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-rename/a.tar", [{"__key__": "1", "jpeg": b"..."}])
    >>> rename(shard, "memory://doc-rename/b.tar", fields={"jpg": "jpeg"}).samples_out
    1

    Args:
        inputs: shards.
        output: one archive, a series, or a folder.
        options: how to write and run.
        fields: new name → old name.
        drop: fields to leave out.
        key: (regular expression, replacement) for keys.
        rekey: number the keys in this format instead, `{:09d}`; in a folder of outputs each shard begins at 0.
    """
    renaming = Renaming(dict(fields or {}), tuple(drop), key)
    named = [*renaming.fields.values(), *renaming.drop]
    stages: list[Stage] = [renaming]
    if rekey is not None:
        stages.append(numbered_keys(rekey))
    return transform(stages, inputs, output, options, job=f"rename {renaming} {rekey}", named=named)
