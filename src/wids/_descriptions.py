"""Make and change descriptions of datasets: what `widsindex` does, as functions that return values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from webdataset import shards, stores
from webdataset.errors import FormatError, SpecError, Where
from webdataset.index import Description, ShardEntry, index_shards, seen_from, write_description

Json = dict[str, Any]


def create(
    files: Iterable[str],
    output: str,
    *,
    name: str | None = None,
    info: str | None = None,
    base: str | None = None,
    store: bool = False,
) -> Description:
    """Read every shard once, and store the description of all of them, whole or not at all.

    >>> from webdataset.testing import make_shard
    >>> shard = make_shard("memory://wids/c.tar", [{"__key__": "x", "cls": 7}])
    >>> create([shard], "memory://wids/c.json").shards[0].url
    'c.tar'

    Args:
        files: addresses, with braces.
        output: where the description goes; shards beside or below it are named relative to it.
        name: the dataset's name; by default the first shard's, without its number.
        info: a text about the dataset.
        base: where `files` are, if they are given relative to another place; recorded in the description.
        store: also store the index of each shard beside it.
    """
    named = sorted(shards.expand(list(files)))
    urls = [f"{base.rstrip('/')}/{url}" for url in named] if base else named
    found = index_shards(urls, store_index=store).shards
    listed = named if base else [seen_from(output, url) for url in urls]
    entries = [ShardEntry(url, shard.nsamples, shard.filesize, shard.md5sum) for url, shard in zip(listed, found)]  # noqa: B905 - as many by construction
    description = Description(entries, name=name or _stem(named[0]), info=info, base=base)
    stores.write_bytes(output, write_description(description) + b"\n")
    return description


def update(path: str, change: Callable[[Json], Json]) -> Json:
    """Change a description in place; the old one stays beside it as `.bak`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp(), "d.json")
    >>> _ = file.write_text('{"wids_version": 1, "shardlist": [{"url": "x/a.tar", "nsamples": 1}]}')
    >>> update(str(file), lambda content: {**content, "name": "train"})["name"]
    'train'
    >>> file.with_name("d.json.bak").exists()
    True
    """
    before = stores.read_bytes(path)
    try:
        content = json.loads(before)
    except (ValueError, RecursionError) as error:
        raise FormatError("the description is not JSON", Where(shard=path), hint="write it again") from error
    if not isinstance(content, dict) or content.get("wids_version") != 1:
        raise FormatError("this is not a dataset description of version 1", Where(shard=path), hint='"wids_version": 1')
    after = change(content)
    stores.write_bytes(f"{path}.bak", before)
    stores.write_bytes(path, json.dumps(after, indent=2).encode() + b"\n")
    return after


def move_shards(content: Json, *, nodir: bool = False, folder: str | None = None, base: str | None = None) -> Json:
    """The description with other addresses of its shards, also of those of its parts.

    >>> move_shards({"shardlist": [{"url": "x/a.tar"}]}, nodir=True, folder="s3://b")
    {'shardlist': [{'url': 's3://b/a.tar'}]}

    Args:
        content: the description.
        nodir: leave the directories out.
        folder: put this before the last component of each address.
        base: put this before each relative address.
    """

    def moved(url: str) -> str:
        if nodir or folder is not None:
            url = PurePosixPath(url).name
        if folder is not None:
            url = f"{folder.rstrip('/')}/{url}"
        relative = "://" not in url and not url.startswith("/")
        return f"{base.rstrip('/')}/{url}" if base is not None and relative else url

    result = dict(content)
    if "shardlist" in content:
        result["shardlist"] = [{**entry, "url": moved(entry["url"])} for entry in content["shardlist"]]
    if "datasets" in content:
        parts = content["datasets"]
        result["datasets"] = [move_shards(part, nodir=nodir, folder=folder, base=base) for part in parts]
    return result


def listed(words: Sequence[str], lines: Iterable[str]) -> list[str]:
    """The files that a command line names; `-` reads a list, one per line.

    >>> listed(["a.tar", "-"], ["b.tar", ""])
    ['a.tar', 'b.tar']
    """
    files = [word for word in words if word != "-"]
    if "-" in words:
        files += [line.strip() for line in lines if line.strip()]
    if not files:
        raise SpecError("no shards were named", hint="name files on the command line, or '-' and one per line")
    return files


def _stem(url: str) -> str:
    """The first shard's name without its number: `train-000000.tar` → `train`."""
    return PurePosixPath(url).name.partition(".")[0].rstrip("0123456789").rstrip("-_") or "dataset"
