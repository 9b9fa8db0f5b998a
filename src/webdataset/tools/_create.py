"""`create`: a new dataset from recipes, tables, folders and archives."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from webdataset import stores
from webdataset.arguments import require_choice
from webdataset.errors import FormatError, SpecError, Where
from webdataset.flow import digest
from webdataset.order import permutation
from webdataset.redact import hides_secrets
from webdataset.shards import is_shard_name

from ._count_samples import even_counts
from ._file_tree import read_folder, read_image_folder, read_tar, read_zip
from ._manifest import DEFAULT_KEY, read_manifest
from ._output_target import existing, is_stream, make_folder, parse_stream, refuse_existing
from ._partition import Parts, write_parts
from ._read_inputs import Inputs, Sample, input_specs
from ._recipe import read_recipe
from ._report import Failure, Report
from ._sample_sources import Entry
from ._verb_options import DEFAULTS, Options
from ._write_samples import description_of, write_samples

FORMATS = ("recipe", "tsv", "csv", "jsonl", "parquet", "tree", "imagefolder", "zip", "tar")
_BY_SUFFIX = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".zip": "zip"}


@hides_secrets
@dataclass(frozen=True)
class Making:
    """How the inputs of `create` are read.

    Attributes:
        format: one of `FORMATS`; None decides by name.
        shuffle: write the samples in a random order, decided by the seed.
        parts: divide the samples into parts; the output must then contain `{part}`.
        missing: what to do about a file that does not exist: "error", or "skip" to leave its sample out and report it.
        key: the key of rows without one.
        folder: what relative paths in recipes and tables are relative to.
        columns: the columns of a table without a header.
        separator: between name and source in a recipe.
    """

    format: str | None = None
    shuffle: bool = False
    parts: Parts | None = None
    missing: str = "error"
    key: str = DEFAULT_KEY
    folder: str | None = None
    columns: tuple[str, ...] | None = None
    separator: str | None = None

    def __post_init__(self) -> None:
        if self.format is not None:
            require_choice("format", self.format, FORMATS)
        require_choice("missing", self.missing, ("error", "skip"))


def create(
    inputs: Inputs, output: str | os.PathLike[str], options: Options = DEFAULTS, making: Making | None = None
) -> Report:
    r"""Write a new dataset.

    >>> with stores.open_write("memory://doc-create/recipe") as stream:
    ...     _ = stream.write(b"a.txt text:hello\nb.txt text:world\n")
    >>> create("memory://doc-create/recipe", "memory://doc-create/%d.tar").samples_out
    2

    Args:
        inputs: recipes, tables, folders, zip or tar archives.
        output: one archive or a numbered series; `{part}` in it is the name of the part.
        options: how to write; a series gets a description unless `options.description` names another place.
        making: how the inputs are read.
    """
    making = making or Making()
    with ExitStack() as stack:
        gathered = _Gathered()
        for name in input_specs(inputs):
            gathered.add(name, making, stack)
        entries: Iterable[Entry] = _distinct(gathered.entries)
        failed: list[Failure] = []
        if not gathered.lazy or making.shuffle:
            listed = list(entries)
            if not listed:
                hint = "a sample is a file with an extension, or a line of a table"
                raise SpecError("the inputs hold no samples", hint=hint)
            if gathered.named:
                listed = _present(listed, making.missing, failed)
            entries = _shuffled(listed, options.seed) if making.shuffle else listed
        labels = None if gathered.classes is None else _classes_beside(stores.as_address(output))
        refuse_existing(existing([labels]), force=options.force)
        report = _write(entries, stores.as_address(output), options, making)
    if labels is not None and gathered.classes is not None:
        if not options.dry_run:
            _write_classes(gathered.classes, labels)
        report = replace(report, outputs=(*report.outputs, labels))
    return replace(
        report, samples_in=report.samples_out + len(failed), failed=tuple(failed), notes=_notes(gathered.ignored)
    )


def _notes(ignored: Sequence[str]) -> tuple[str, ...]:
    return (f"files that belong to no sample: {len(ignored)}, for example {ignored[0]}",) if ignored else ()


@dataclass
class _Gathered:
    """The entries of all inputs."""

    entries: Iterable[Entry] = ()
    ignored: list[str] = field(default_factory=list)
    classes: list[str] | None = None
    lazy: bool = True  # all inputs are tables that contain the data, so rows are read one at a time
    named: bool = False  # recipes or tables name files, which may be missing

    def add(self, url: str, making: Making, stack: ExitStack) -> None:
        """Add the entries of one input."""
        kind = making.format or find_format(url)
        self.named |= kind in {"recipe", "tsv", "csv", "jsonl", "parquet"}
        self.lazy &= kind == "parquet"
        if kind == "recipe":
            self._add(read_recipe(url, making.folder, making.separator))
        elif kind in {"tsv", "csv", "jsonl", "parquet"}:
            self._add(read_manifest(url, kind, key=making.key, folder=making.folder, columns=making.columns))
        elif kind == "imagefolder":
            if self.classes is not None:
                raise SpecError("two image folders would number their classes differently", hint="give one")
            files, self.classes = read_image_folder(url)
            self._add(files.entries, files.ignored)
        else:
            files = (
                read_folder(url) if kind == "tree" else read_zip(url, stack) if kind == "zip" else read_tar(url, stack)
            )
            self._add(files.entries, files.ignored)

    def _add(self, entries: Iterable[Entry], ignored: Sequence[str] = ()) -> None:
        self.entries = chain(self.entries, entries)
        self.ignored += ignored


def find_format(url: str) -> str:
    """The format of an input, by its name.

    >>> find_format("list.csv"), find_format("a.tar.gz"), find_format("recipe.txt"), find_format("/tmp")
    ('csv', 'tar', 'recipe', 'tree')
    """
    path = stores.is_local(url)
    if path is not None and os.path.isdir(path):
        return "tree"
    suffix = Path(url.partition("?")[0] if "://" in url else url).suffix.lower()
    return _BY_SUFFIX.get(suffix) or ("tar" if is_shard_name(url) else "recipe")


def _distinct(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The same entries; a duplicate key is an error."""
    seen: dict[str, str] = {}
    for entry in entries:
        if seen.setdefault(entry.key, entry.place) != entry.place:
            raise FormatError(
                f"the key {entry.key!r} is used twice, first in {seen[entry.key]}",
                Where(shard=entry.place),
                hint="rename one of them, or create two datasets",
            )
        yield entry


def _present(entries: list[Entry], policy: str, failed: list[Failure]) -> list[Entry]:
    """The entries whose files exist; all files are checked before anything is written."""
    kept = []
    for entry in entries:
        path = entry.missing()
        if path is None:
            kept.append(entry)
        elif policy == "error":
            entry.sample()  # raises an error with the location
            raise FormatError(f"the source {path} is not a file", Where(shard=entry.place), hint="name a file")
        else:
            failed.append(Failure(entry.key, f"the source {path} was not found ({entry.place})"))
    return kept


def _shuffled(entries: list[Entry], seed: int) -> list[Entry]:
    order = permutation(len(entries), digest("create", seed)) if entries else ()
    return [entries[int(number)] for number in order]


def _samples(entries: Iterable[Entry]) -> Iterator[Sample]:
    return (entry.sample() for entry in entries)


def _write(entries: Iterable[Entry], output: str, options: Options, making: Making) -> Report:
    if making.parts is not None:
        reports = write_parts(_samples(entries), output, making.parts, options)
        return _sum(list(reports.values()))
    target = parse_stream(output)
    counts = None
    if options.shards:
        entries = list(entries)
        if len(entries) < options.shards:
            raise SpecError(f"{len(entries)} samples cannot fill {options.shards} shards", hint="ask for fewer")
        counts = even_counts(len(entries), options.shards)
    described = replace(options, description=options.description or description_of(target))
    return write_samples(_samples(entries), target, described, counts)


def _sum(reports: Sequence[Report]) -> Report:
    return Report(
        samples_out=sum(report.samples_out for report in reports),
        bytes_out=sum(report.bytes_out for report in reports),
        done=sum(report.done for report in reports),
        outputs=tuple(url for report in reports for url in report.outputs),
    )


def _classes_beside(output: str) -> str | None:
    """The address of the file with the names of the classes."""
    return None if is_stream(output) else f"{output[: output.rfind('/') + 1]}classes.json"


def _write_classes(classes: Sequence[str], url: str) -> None:
    """Store the names of the classes, in the order of their numbers."""
    make_folder(url)
    stores.write_bytes(url, json.dumps(list(classes), indent=0).encode() + b"\n")
