"""Records → samples: find the files, the mapping and the keys, and check that all files have the same fields."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import closing
from itertools import islice
from typing import Any

from webdataset.errors import FormatError, SpecError, Where, add_where, located

from ._field_mapping import ADDED, FieldMapping
from ._guess_mapping import guess_mapping
from ._record_format import Format, Part, Record, Schema

logger = logging.getLogger(__name__)

LOOK_AT = 100  # records that a guess is made from
_LOOK_AT_BYTES = 16 << 20


def listed_parts(kind: Format, source: Any) -> list[Part]:
    """The parts of a dataset; an error if there are none."""
    parts = kind.parts(source)
    if not parts:
        raise SpecError(f"{source!r} names no files", hint="check the path")
    return parts


def find_mapping(
    kind: Format,
    parts: list[Part],
    mapping: Any,
    key: str | None,
    *,
    by_extension: bool,
    schema: Schema | None = None,
) -> FieldMapping:
    """The mapping of the user, or a guess from the first records. `schema` is that of the first file."""
    if mapping is not None:
        fields = FieldMapping.of(mapping)
    else:
        by_extension = by_extension and not kind.by_extension
        with located(shard=parts[0].url):
            fields = guess_mapping(_first_records(kind, parts), by_extension=by_extension, repeated=kind.repeated)
        logger.info("no mapping was given, this one is used: %s", fields)
    return with_known_key(fields, key, schema, parts[0].url)


def with_known_key(fields: FieldMapping, key: str | None, names: Iterable[str] | None, url: str) -> FieldMapping:
    """The mapping with the key taken from a field. An unknown field is an error, if the names of all are known."""
    fields = fields.with_key(key)
    known = None if names is None else sorted(names)
    unknown = [pair.source for pair in fields.pairs if known is not None and pair.source not in known]
    if unknown:
        raise SpecError(
            f"the mapping names {unknown[0]!r}, and there is no such field",
            Where(shard=url),
            hint=f"there are {', '.join(known or ())}",
        )
    return fields


def _first_records(kind: Format, parts: list[Part]) -> list[Record]:
    """Some records of the first file that has any, fewer if they are large."""
    found: list[Record] = []
    size = 0
    for part in parts:
        with kind.open(part) as file, closing(file.records()) as records:  # type: ignore[type-var]  # generators
            for record in islice(records, LOOK_AT):
                # A reader of shards has added names to samples.
                found.append({name: record[name] for name in record if not kind.by_extension or name not in ADDED})
                size += sum(
                    len(value) if isinstance(value, bytes) else getattr(value, "nbytes", 0) for value in record.values()
                )
                if size > _LOOK_AT_BYTES:
                    break
        if found:
            break
    return found


def counter_key(part: int, number: int, parts: int) -> str:
    """The key of a record without one; the same for any number of processes.

    >>> counter_key(0, 17, 1), counter_key(2, 17, 8)
    ('000000017', '000002-000000017')
    """
    return f"{number:09d}" if parts == 1 else f"{part:06d}-{number:09d}"


def sample_of(
    mapping: FieldMapping, record: Record, key: str, kind: Format, url: str, number: int, *, decode: bool = False
) -> Record:
    """The sample of a record; errors name the file and the record."""
    try:
        return mapping.sample(record, key, repeated=kind.repeated, decode=decode)
    except FormatError as error:
        error.what = f"record {number}: {error.what}"
        add_where(error, shard=url)
        raise


def schema_of(kind: Format, part: Part) -> Schema | None:
    """The fields and types of one file, where it states them."""
    with kind.open(part) as file:
        return file.schema


def check_schema(schema: Schema | None, first: Schema | None, url: str, first_url: str) -> None:
    """Refuse a file whose fields differ from those of the first one.

    >>> check_schema({"a": "int32"}, {"a": "int64"}, "2.parquet", "1.parquet")
    Traceback (most recent call last):
    webdataset.errors.FormatError: the field a: expected int64 as in 1.parquet, got int32 – 2.parquet – ...
    """
    if schema is None or first is None or schema == first:
        return
    name = next(name for name in (*first, *schema) if first.get(name) != schema.get(name))
    raise FormatError(
        f"the field {name}: expected {first.get(name, 'missing')} as in {first_url}, got {schema.get(name, 'missing')}",
        Where(shard=url),
        hint="convert files of one schema at a time",
    )
