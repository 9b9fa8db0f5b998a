"""Problems of a dataset: the findings of `wds check`, near-duplicate images, differences of two versions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from typing import Any

from webdataset import stores, tools
from webdataset.errors import WebDatasetError

from ._background_jobs import Job
from ._catalog import Catalog
from ._cells import shown_text
from ._field_content import head
from ._field_kind import FieldKind, field_kind
from ._thumbnail import check_fetch, shrink_image

_MOST_FINDINGS = 2000
_MOST_HASHED = 20_000
_MOST_PAIRS = 500
_MOST_DIFFERENCES = 5000
# Two hashes of 64 bits that differ in at most 4 bits agree in at least one of 5 bands.
_DISTANCE = 4
_BANDS = ((0, 13), (13, 13), (26, 13), (39, 13), (52, 12))
_LARGEST_BAND = 200


def check_dataset(catalog: Catalog, index: str | None, job: Job) -> dict[str, Any]:
    """The findings of `wds check`, decoding included; the work of a job."""
    job.advance(0, len(catalog.urls))
    report = tools.check(catalog.urls, tools.CheckOptions(index=index), on_shard=lambda _report: job.advance())
    findings = [
        {
            "kind": finding.kind.value,
            "severity": finding.severity.value,
            "what": shown_text(stores.redacted(finding.what)),
            "shard": stores.redacted(finding.shard or ""),
            "key": None if finding.key is None else shown_text(finding.key),
            "field": None if finding.field is None else shown_text(finding.field),
            "offset": finding.offset,
            "remedy": finding.remedy,
        }
        for finding in report.findings[:_MOST_FINDINGS]
    ]
    counts = {kind.value: count for kind, count in report.counts.items()}
    return {"samples": report.samples, "shards": report.shards, "counts": counts, "findings": findings}


def find_duplicates(catalog: Catalog, job: Job) -> dict[str, Any]:
    """Find similar images, by a perceptual hash of the first image of each sample; the work of a job."""
    catalog.wait(lambda: job.advance(0))
    count = min(_MOST_HASHED, len(catalog))
    job.advance(0, count)
    hashes: dict[int, int] = {}
    failed = 0
    for place in range(count):
        job.advance()
        number = place * len(catalog) // count
        try:
            found = _hash_of(catalog, number)
        except WebDatasetError:
            failed += 1
            continue
        if found is not None:
            hashes[number] = found
    pairs = [
        {"first": first, "second": second, "distance": distance}
        for first, second, distance in near_pairs(hashes.items(), _MOST_PAIRS)
    ]
    return {"looked_at": count, "images": len(hashes), "failed": failed, "pairs": pairs}


def _hash_of(catalog: Catalog, number: int) -> int | None:
    found = catalog.at(number)
    for member in found.view.members(found.inside):
        if field_kind(member.field) is FieldKind.IMAGE:
            check_fetch(member.size)
            return difference_hash(head(found.view, found.inside, member, member.size))
    return None


def difference_hash(data: bytes) -> int:
    """A hash of 64 bits that is close for similar images: whether each of 8 x 8 pixels is brighter than the next."""
    import io

    from PIL import Image

    small, _ = shrink_image(data, 64)
    with Image.open(io.BytesIO(small)) as image:
        grey = image.convert("L").resize((9, 8)).tobytes()
    bits = 0
    for row in range(8):
        for column in range(8):
            bits = bits << 1 | (grey[row * 9 + column] > grey[row * 9 + column + 1])
    return bits


def near_pairs(hashes: Iterable[tuple[int, int]], most: int) -> list[tuple[int, int, int]]:
    """Pairs of samples whose hashes differ in few bits, the closest first.

    >>> near_pairs([(0, 0), (1, 0b111), (2, (1 << 64) - 1)], 10)
    [(0, 1, 3)]
    """
    bands: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for number, bits in hashes:
        for band, (shift, width) in enumerate(_BANDS):
            bands[band, bits >> shift & (1 << width) - 1].append((number, bits))
    found: dict[tuple[int, int], int] = {}
    for entries in bands.values():
        # Many plain images share a band; only the first of them are compared.
        for (first, left), (second, right) in combinations(entries[:_LARGEST_BAND], 2):
            distance = (left ^ right).bit_count()
            if distance <= _DISTANCE:
                found[first, second] = distance
    pairs = [(first, second, distance) for (first, second), distance in found.items()]
    return sorted(pairs, key=lambda pair: (pair[2], pair[0], pair[1]))[:most]


def compare(left: Catalog, right: Catalog, job: Job) -> dict[str, Any]:
    """Find the differences of two datasets, compared by key; the work of a job."""
    left.wait(lambda: job.advance(0))
    right.wait(lambda: job.advance(0))
    job.advance(0, len(left) + len(right))
    rows: list[dict[str, str | None]] = []
    count = 0
    for difference in tools.diff(left.urls, right.urls, advance=job.advance):
        count += 1
        if len(rows) < _MOST_DIFFERENCES:
            field = None if difference.field is None else shown_text(difference.field)
            rows.append({"key": shown_text(difference.key), "change": difference.change.value, "field": field})
    rows.sort(key=lambda row: (row["key"] or "", row["field"] or ""))
    return {"differences": count, "rows": rows}
