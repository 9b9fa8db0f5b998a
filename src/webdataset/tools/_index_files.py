"""`wds index`: the index files of shards (DALI's format) and the description of a dataset (wids' format)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from webdataset import stores
from webdataset.errors import FormatError, SpecError, StaleIndex
from webdataset.index import (
    Description,
    Extent,
    IndexedShards,
    ShardEntry,
    ShardIndex,
    build_index,
    check_end,
    index_shards,
    load_count,
    load_index,
    open_bytes,
    read_description,
)
from webdataset.redact import hides_secrets

from ._output_target import existing, refuse_description, refuse_existing, store_description
from ._read_inputs import Inputs, expand_inputs, input_specs
from ._verb_options import Advance


@hides_secrets
@dataclass(frozen=True, slots=True)
class Indexed:
    """The result of indexing shards.

    Attributes:
        shards: how many shards.
        samples: how many samples they have.
        size: how many bytes, as far as the stores report sizes.
        written: the shards whose index was written.
        description: where the description is; None if there is none.
    """

    shards: int
    samples: int
    size: int
    written: tuple[str, ...]
    description: str | None = None


def create_index(
    inputs: Inputs,
    *,
    description: str | None = None,
    name: str | None = None,
    place: str | None = None,
    dali: bool = True,
    workers: int = 4,
    force: bool = False,
    advance: Advance | None = None,
) -> Indexed:
    """Read shards once and write their index files, and a description if an address for it is given.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-index/a.tar", [{"__key__": "0", "txt": "hello"}])
    >>> create_index(shard, description="memory://doc-index/all.json").samples
    1
    >>> index_info("memory://doc-index/all.json").samples
    1

    Args:
        inputs: shards.
        description: where the description goes.
        name: the dataset's name in the description.
        place: a directory or bucket for the index files; by default beside the shards.
        dali: write index files; without, only the description.
        workers: how many shards are read at a time.
        force: replace a description that exists.
        advance: called with 1 for each shard.
    """
    if not dali and description is None:
        raise SpecError("nothing is to be written", hint="give a description with -o, or leave out --no-dali")
    urls = expand_inputs(inputs)
    refuse_existing(existing([description]), force=force)
    refuse_description(description, urls)
    entries: list[ShardEntry] = []
    for start in range(0, len(urls), workers):
        part = urls[start : start + workers]
        entries += index_shards(part, index=place, workers=workers, store_index=dali).shards
        if advance is not None:
            advance(len(part))
    if description is not None:
        store_description(Description(entries, name=name), description)
    return _indexed(entries, urls if dali else [], description)


def update_index(
    inputs: Inputs, *, place: str | None = None, workers: int = 4, advance: Advance | None = None
) -> Indexed:
    """Write again the index files, and the entries of a description, that do not fit their shards any more.

    Args:
        inputs: shards, or the address of a description.
        place: where the index files are; by default beside the shards.
        workers: how many shards are checked at a time.
        advance: called with 1 for each shard.
    """
    address = _description_address(inputs)
    known = read_description(address) if address is not None else None
    entries = list(known.shards) if known is not None else [ShardEntry(url, 0) for url in expand_inputs(inputs)]

    def update(entry: ShardEntry) -> tuple[ShardEntry, bool]:
        valid = _valid_entry(entry, place, described=known is not None)
        if advance is not None:
            advance(1)
        if valid is not None:
            return valid, False
        (made,) = index_shards([entry.url], index=place, workers=1).shards
        return made._replace(dataset=entry.dataset, weight=entry.weight), True

    with ThreadPoolExecutor(max(1, workers)) as pool:
        updated = list(pool.map(update, entries))
    written = [entry.url for entry, changed in updated if changed]
    if known is not None and address is not None and written:
        store_description(replace(known, shards=[entry for entry, _ in updated]), address)
    return _indexed([entry for entry, _ in updated], written, address)


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """Totals of shards, from indexes and descriptions.

    Attributes:
        name: the dataset's name, if a description gives one.
        shards: how many shards.
        samples: how many samples, of the shards that are indexed or described.
        size: how many bytes, as far as that is known.
        unknown: the shards without index and description.
    """

    name: str | None
    shards: int
    samples: int
    size: int | None
    unknown: tuple[str, ...]


def index_info(inputs: Inputs, *, place: str | None = None) -> IndexInfo:
    """Totals, from index files or a description alone."""
    address = _description_address(inputs)
    if address is not None:
        known = read_description(address)
        sizes = [entry.filesize for entry in known.shards]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        return IndexInfo(known.name, len(known.shards), known.nsamples, total, ())
    urls = expand_inputs(inputs)
    counts = {url: load_count(url, place) for url in urls}
    size = sum(stores.size_of(url) or 0 for url in urls)
    missing = tuple(url for url, count in counts.items() if count is None)
    return IndexInfo(None, len(urls), sum(count or 0 for count in counts.values()), size, missing)


def indexed_sample(inputs: Inputs, number: int, *, place: str | None = None) -> dict[str, Any]:
    """One sample by its number in the dataset, read through the index.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-index/b.tar", [{"__key__": f"{n}", "txt": f"{n}"} for n in range(5)])
    >>> indexed_sample(shard, -1)["txt"]
    b'4'
    """
    address = _description_address(inputs)
    source = read_description(address) if address is not None else expand_inputs(inputs)
    with IndexedShards(source, index=place) as shards:
        try:
            return dict(shards[number])
        except IndexError as error:
            raise SpecError(str(error), hint="numbers begin at 0") from error


def _valid_entry(entry: ShardEntry, place: str | None, *, described: bool) -> ShardEntry | None:
    """The entry of a shard if its index, and with `described` the entry itself, still match the shard; else None."""
    try:
        stored = load_index(entry.url, place)
    except FormatError:
        return None
    if stored is None:
        return None
    size = stores.size_of(entry.url)
    if stores.is_local(entry.url) is not None:
        if index_difference(stored, build_index(entry.url)) is not None:
            return None
    else:
        try:
            reader = open_bytes(entry.url)
            check_end(stored, reader.size, reader.read, entry.url)
        except StaleIndex:
            return None
    if not described:
        return ShardEntry(entry.url, len(stored), filesize=size)
    return entry if entry.nsamples == len(stored) and entry.filesize in {None, size} else None


def _indexed(entries: Sequence[ShardEntry], written: Sequence[str], description: str | None) -> Indexed:
    samples, size = sum(entry.nsamples for entry in entries), sum(entry.filesize or 0 for entry in entries)
    return Indexed(len(entries), samples, size, tuple(written), description)


def _description_address(inputs: Inputs) -> str | None:
    given = input_specs(inputs)
    return given[0] if len(given) == 1 and given[0].endswith(".json") else None


def index_difference(stored: ShardIndex, built: ShardIndex) -> str | None:
    """How an index differs from the shard it should describe; None if it does not.

    >>> from webdataset.index import build
    >>> index_difference(build([("a.txt", 512, 3)]), build([("a.txt", 512, 4)]))
    "the index says txt at byte 512 with 3 bytes for sample 'a', the shard has txt at byte 512 with 4 bytes"
    """
    if len(stored) != len(built):
        return f"the index has {len(stored):,} samples, the shard has {len(built):,}"
    for number, (said, found) in enumerate(zip(stored.rows(), built.rows(), strict=True)):
        key = built.key(number)
        if stored.key(number) not in {None, key}:
            return f"the index says sample {stored.key(number)!r} where the shard has {key!r}"
        if said != found:
            return f"the index says {_extents(said)} for sample {key!r}, the shard has {_extents(found)}"
    return None


def _extents(extents: Iterable[Extent]) -> str:
    return ", ".join(f"{each.field} at byte {each.offset} with {each.size} bytes" for each in extents)
