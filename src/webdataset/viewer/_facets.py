"""Counts over a dataset: fields, shards and sizes from the indexes; labels and resolutions of some samples."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from webdataset import stores, tools
from webdataset.errors import WebDatasetError

from ._background_jobs import Job
from ._catalog import Catalog
from ._cells import shown_text
from ._field_content import head
from ._field_kind import FieldKind, field_kind
from ._shard_view import IndexedShard, Member, ShardView
from ._thumbnail import image_size

# Labels and resolutions need bytes of samples: so many samples, evenly spread.
_LOOKED_AT = 1500
_MOST_SHOWN = 40
_IMAGE_HEAD = 65536
_LABEL_KEYS = ("label", "class", "category", "cls")


def count_facets(catalog: Catalog, job: Job) -> dict[str, Any]:
    """Count fields, sizes, labels and resolutions; the work of a job.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-facets/a.tar", [{"__key__": f"{n}", "cls": n % 2} for n in range(5)])
    >>> with Catalog(shard) as catalog:
    ...     catalog.wait()
    ...     found = count_facets(catalog, Job(1, "facets"))
    >>> found["fields"], found["labels"]["cls"]
    ([{'name': 'cls', 'kind': 'label', 'count': 5, 'bytes': 5}], [['0', 3], ['1', 2]])
    """
    catalog.wait(lambda: job.advance(0))
    shards = len(catalog.urls)
    looked_at = min(_LOOKED_AT, len(catalog))
    job.advance(0, shards + looked_at)
    sizes, fields = tools.Distribution(), dict[str, list[int]]()
    for _, _, view in catalog.views():
        if not isinstance(view, WebDatasetError):
            _count_members(view, sizes, fields)
        job.advance()
    labels, shapes = _count_labels_and_shapes(catalog, looked_at, job)
    return {
        "samples": len(catalog),
        "looked_at": looked_at,
        "fields": [
            {"name": shown_text(name), "kind": field_kind(name).value, "count": count, "bytes": size}
            for name, (count, size) in sorted(fields.items(), key=lambda item: -item[1][0])
        ],
        "sizes": sizes.histogram(),
        "labels": {field: _most_common(counts) for field, counts in labels.items()},
        "shapes": _most_common(shapes),
        "shards": shard_rows(catalog),
    }


def shard_rows(catalog: Catalog) -> list[dict[str, Any]]:
    """Shards with the numbers of their first samples."""
    rows, first = [], 0
    for shard, url in enumerate(catalog.urls[:2000]):
        count = catalog.count(shard)
        rows.append({"shard": stores.redacted(url), "count": count, "first": first})
        if count is None:
            break
        first += count
    return rows


def _most_common(counts: Counter[str]) -> list[list[Any]]:
    return [[name, count] for name, count in counts.most_common(_MOST_SHOWN)]


def _count_members(view: ShardView, sizes: tools.Distribution, fields: dict[str, list[int]]) -> None:
    if isinstance(view, IndexedShard) and len(view):
        _count_columns(view, sizes, fields)
        return
    for number in range(len(view)):
        members = view.members(number)
        sizes.add(sum(member.size for member in members))
        for member in members:
            known = fields.setdefault(member.field, [0, 0])
            known[0] += 1
            known[1] += member.size


def _count_columns(view: IndexedShard, sizes: tools.Distribution, fields: dict[str, list[int]]) -> None:
    """The same from the columns of an index: one step per field, not per sample."""
    import numpy as np

    index = view.index
    for number, name in enumerate(index.fields):
        chosen = index.sizes[index.field_numbers == number]
        known = fields.setdefault(name.lower(), [0, 0])
        known[0] += len(chosen)
        known[1] += int(chosen.sum())
    totals = np.add.reduceat(index.sizes, index.firsts[:-1])
    bits = np.where(totals > 0, np.floor(np.log2(np.maximum(totals, 1))).astype(np.int64) + 1, 0)
    for bit, count in zip(*np.unique(bits, return_counts=True), strict=True):
        sizes.bins[int(bit)] += int(count)
    sizes.count += len(totals)
    sizes.total += int(totals.sum())


def _count_labels_and_shapes(catalog: Catalog, count: int, job: Job) -> tuple[dict[str, Counter[str]], Counter[str]]:
    """Labels and resolutions of samples that are evenly spread over the dataset."""
    labels: dict[str, Counter[str]] = {}
    shapes: Counter[str] = Counter()
    for place in range(count):
        job.advance()
        try:
            found = catalog.at(place * len(catalog) // count)
            for member in found.view.members(found.inside):
                _count_field(found.view, found.inside, member, labels, shapes)
        except (WebDatasetError, ValueError, RecursionError):
            continue  # the cell of the sample shows the error
    return labels, shapes


def _count_field(
    view: ShardView, inside: int, member: Member, labels: dict[str, Counter[str]], shapes: Counter[str]
) -> None:
    kind = field_kind(member.field)
    if kind is FieldKind.LABEL and member.size < 64:
        text = head(view, inside, member, 64).decode("utf-8", "replace").strip()
        labels.setdefault(member.field, Counter())[text] += 1
    elif kind is FieldKind.JSON and member.size < 65536:
        value = json.loads(head(view, inside, member, 65536))
        for name in _LABEL_KEYS if isinstance(value, dict) else ():
            if isinstance(value.get(name), str | int):
                labels.setdefault(f"{member.field}.{name}", Counter())[str(value[name])] += 1
    elif kind is FieldKind.IMAGE:
        width, height = image_size(head(view, inside, member, _IMAGE_HEAD))
        shapes[f"{width} x {height}"] += 1
