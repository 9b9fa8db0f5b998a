"""Cells of the grid and the page of one sample, as JSON. Only the first bytes of texts and labels are read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from webdataset import stores
from webdataset.errors import WebDatasetError

from ._background_jobs import error_words
from ._catalog import Catalog, Found
from ._field_content import field_content, head
from ._field_kind import FieldKind, field_kind, media_type

# Of a text so many bytes are shown in a cell; fields that are not larger are fetched together.
_SNIPPET = 280
_WHOLE = 4096
_READ = frozenset({FieldKind.TEXT, FieldKind.LABEL, FieldKind.JSON})


def cells(catalog: Catalog, numbers: Iterable[int]) -> list[dict[str, Any]]:
    """The cells of some samples; an error is shown in the cell of its sample only.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://doc-cells/a.tar", [{"__key__": "0", "txt": "hello", "cls": 7}])
    >>> with Catalog(shard) as catalog:
    ...     catalog.wait()
    ...     [(field["name"], field["text"]) for field in cells(catalog, [0])[0]["fields"]]
    [('cls', '7'), ('txt', 'hello')]
    """
    by_shard: dict[int, list[Found]] = {}
    made: dict[int, dict[str, Any]] = {}
    wanted = list(numbers)
    for number in wanted:
        try:
            found = catalog.at(number)
        except (WebDatasetError, IndexError) as error:
            made[number] = {"number": number, "key": "", "fields": [], "problem": error_words(error)}
        else:
            by_shard.setdefault(found.shard, []).append(found)
    for group in by_shard.values():
        snippets = _snippets(group)
        made |= {found.number: _cell(found, snippets.get(found.number, {})) for found in group}
    return [made[number] for number in wanted]


def _snippets(group: list[Found]) -> dict[int, dict[str, bytes]]:
    """The small fields of several samples of a shard, with few requests; nothing if one of them fails."""
    view = group[0].view
    try:
        members = [member for found in group for member in view.members(found.inside)]
        large = {each.field for each in members if each.size > _WHOLE}
        fields = sorted({each.field for each in members if field_kind(each.field) in _READ} - large)
        if not fields:
            return {}
        samples = view.samples([found.inside for found in group], fields)
    except WebDatasetError:
        return {}  # each cell requests its fields again and shows its own error
    return {found.number: sample for found, sample in zip(group, samples, strict=True)}


def _cell(found: Found, known: dict[str, Any]) -> dict[str, Any]:
    view, inside = found.view, found.inside
    cell: dict[str, Any] = {"number": found.number, "key": "", "shard": stores.redacted(view.url), "fields": []}
    try:
        cell["key"] = shown_text(known.get("__key__") or view.key(inside))
        for member in view.members(inside):
            field: dict[str, Any] = {
                "name": shown_text(member.field),
                "size": member.size,
                "kind": field_kind(member.field).value,
            }
            cell["fields"].append(field)
            if field_kind(member.field) in _READ:
                data = known[member.field] if member.field in known else head(view, inside, member, _SNIPPET)
                field["text"] = data[:_SNIPPET].decode("utf-8", "replace")
    except WebDatasetError as error:
        cell["problem"] = error_words(error)
    return cell


def sample_page(catalog: Catalog, number: int) -> dict[str, Any]:
    """Everything about one sample, except the bytes of its images, audio and video."""
    found = catalog.at(number)
    view, inside = found.view, found.inside
    fields = []
    for member in view.members(inside):
        content = field_content(view, inside, member)
        fields.append(content | {"name": shown_text(member.field), "media": media_type(member.field)})
    return {
        "number": number,
        "key": shown_text(view.key(inside)),
        "shard": stores.redacted(view.url),
        "shard_number": found.shard,
        "inside": inside,
        "fields": fields,
    }


def shown_text(text: str) -> str:
    r"""Text without surrogate escapes for bytes that are not UTF-8, which JSON cannot contain.

    >>> shown_text("a" + chr(0xdcff)) == "a" + chr(0xfffd)
    True
    """
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
