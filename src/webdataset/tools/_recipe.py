"""Recipes: text files with one archive member per line, `name source`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from webdataset import stores
from webdataset.errors import FormatError, Where
from webdataset.names import split_name

from ._manifest import file_in_table
from ._sample_sources import Entry, LocalFile, Source, StoredFile, group_entries


def read_recipe(url: str, folder: str | None = None, separator: str | None = None) -> Iterator[Entry]:
    r"""The samples of a recipe.

    >>> with stores.open_write("memory://doc-recipe/r") as stream:
    ...     _ = stream.write(b'# a comment\na.txt text:hello world\n"b c.txt" pipe:echo hi\n')
    >>> [entry.sample() for entry in read_recipe("memory://doc-recipe/r")]
    [{'__key__': 'a', 'txt': b'hello world'}, {'__key__': 'b c', 'txt': b'hi\n'}]

    Each line is the name of a member, blanks, and its source: `text:` and the text itself, `pipe:` and a command,
    `file:`, a path, or any URL. A source may contain blanks; a name with blanks is quoted. Empty lines and lines that
    begin with `#` are left out. The commands run, so a recipe must come from a person you trust. One from a server
    is data: it may name what a table from there may name, and no commands.

    Args:
        url: the recipe; `-` is standard input.
        folder: what relative paths are relative to.
        separator: between name and source; by default any blanks.
    """
    return group_entries(_members(url, folder, separator))


def _members(url: str, folder: str | None, separator: str | None) -> Iterator[tuple[str, str, Source, str]]:
    for number, raw in enumerate(stores.read_bytes(url).splitlines(), 1):
        place = f"{url}, line {number}"
        line = _decoded(raw, place)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, source = _split_line(line, separator, place)
        key, field = split_name(name)
        if key is None or field is None:
            raise FormatError(
                f"{name!r} cannot be the name of a sample's file", Where(shard=place), hint="write key.extension source"
            )
        yield key, field, _source(source, folder, url), place


def _decoded(raw: bytes, place: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise FormatError(
            "the line of a recipe is not text in UTF-8",
            Where(shard=place),
            hint="write it again; if this is not a recipe, give its folder, or name its format with --format",
        ) from error


def _split_line(line: str, separator: str | None, place: str) -> tuple[str, str]:
    """The name and the source in a line."""
    line = line.strip()
    if line[0] in "\"'":
        name, quote, source = line[1:].partition(line[0])
        source = source.removeprefix(separator).strip() if quote and separator else source.strip()
    else:
        words = line.split(separator, 1)
        name, source = words[0], words[1].strip() if len(words) == 2 else ""
    if not name or not source:
        raise FormatError(
            f"expected a name and a source, got {line!r}",
            Where(shard=place),
            hint="write lines such as: 0001.jpg images/0001.jpg",
        )
    if len(source) > 1 and source[0] in "\"'" and source[-1] == source[0]:
        source = source[1:-1]
    return name, source


def _source(text: str, folder: str | None, recipe: str) -> Source:
    if text.startswith("text:"):
        return text.removeprefix("text:").encode()
    if recipe != "-" and stores.scheme_of(recipe) not in {"", "file", "pipe", "memory"}:
        return file_in_table(text, table=recipe, folder=folder)
    path = stores.is_local(text)
    if path is None:
        return StoredFile(text)
    return LocalFile(os.path.join(folder, path) if folder else path)  # noqa: PTH118 - an address
