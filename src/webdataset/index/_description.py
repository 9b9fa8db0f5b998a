"""The description of a whole dataset: which shards, how many samples each, and how to tell that they are those.

JSON as the `wids` package writes it: `wids_version`, a `shardlist` of `url` and `nsamples` (and `filesize`, `md5sum`),
or `datasets` that hold such lists or name other descriptions by `source_url`. Relative addresses are relative to the
description itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from webdataset import stores
from webdataset.errors import FormatError, SpecError, StaleIndex, UnsafeContent, Where

KIND = "wids-shard-index-v1"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class ShardEntry(NamedTuple):
    """One shard of a description; a tuple, because there may be 100,000 of them.

    >>> ShardEntry("a.tar", 1000).nsamples
    1000
    """

    url: str
    nsamples: int
    filesize: int | None = None
    md5sum: str | None = None
    dataset: str | None = None
    weight: float | None = None

    def check(self, size: int | None) -> None:
        """Refuse a shard of another size than the described one.

        >>> ShardEntry("a.tar", 1000, filesize=2048).check(1024)
        Traceback (most recent call last):
        webdataset.errors.StaleIndex: the description says 2048 bytes, the shard has 1024 – a.tar – ...
        """
        if size is not None and self.filesize is not None and size != self.filesize:
            raise StaleIndex(
                f"the description says {self.filesize} bytes, the shard has {size}",
                Where(shard=self.url),
                hint="describe the dataset again, or get the shard again",
            )


@dataclass(frozen=True)
class Description:
    """A dataset as its shards.

    >>> Description([ShardEntry("a.tar", 1000), ShardEntry("b.tar", 500)]).nsamples
    1500
    """

    shards: Sequence[ShardEntry]
    name: str | None = None
    info: str | None = None
    base: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.shards:
            raise SpecError("the description lists no shards", hint="describe at least one shard")

    @property
    def nsamples(self) -> int:
        """The number of samples of all shards."""
        return sum(shard.nsamples for shard in self.shards)

    @property
    def urls(self) -> list[str]:
        """The shards' addresses."""
        return [shard.url for shard in self.shards]

    @property
    def counts(self) -> list[int]:
        """The number of samples of each shard."""
        return [shard.nsamples for shard in self.shards]


def read_description(source: str | PathLike[str] | Mapping[str, Any], base: str | None = None) -> Description:
    """A description out of its JSON, at an address or as a mapping, with the shards' addresses made absolute.

    >>> content = {"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": 3}]}
    >>> read_description(content, base="s3://b/train").urls
    ['s3://b/train/a.tar']

    Args:
        source: where the JSON lies, or its content.
        base: what relative addresses are relative to; by default the place of the description itself.
    """
    if isinstance(source, Mapping):
        return _parse(source, base, "the description")
    name = fspath(source)
    return _parse(_load(name), name.rpartition("/")[0] if base is None else base, name)


def write_description(description: Description) -> bytes:
    """The JSON of a description, in the form that `wids` reads.

    >>> print(write_description(Description([ShardEntry("a.tar", 3)], name="train")).decode())
    {
      "__kind__": "wids-shard-index-v1",
      "wids_version": 1,
      "name": "train",
      "shardlist": [
        {"url": "a.tar", "nsamples": 3}
      ]
    }
    """
    head: dict[str, Any] = {"__kind__": KIND, "wids_version": 1}
    head |= {key: value for key in ("name", "base", "info") if (value := getattr(description, key)) is not None}
    head |= description.extra
    rows = ",\n    ".join(json.dumps(_entry(shard)) for shard in description.shards)
    text = json.dumps({**head, "shardlist": []}, indent=2)
    return text.replace('"shardlist": []', f'"shardlist": [\n    {rows}\n  ]').encode()


def seen_from(description: str, url: str) -> str:
    """A shard's address as a description has it: relative to it where that can be, so that both can move together.

    >>> seen_from("s3://b/train/all.json", "s3://b/train/0.tar"), seen_from("all.json", "s3://b/0.tar")
    ('0.tar', 's3://b/0.tar')
    """
    folder = description.rpartition("/")[0]
    path, home = stores.is_local(url), stores.is_local(folder or ".")
    if path is None:
        return url.removeprefix(f"{folder}/") if folder else url
    path = os.path.abspath(path)  # noqa: PTH100 - links stay as they are
    return path if home is None else path.removeprefix(f"{os.path.abspath(home).rstrip('/')}/")  # noqa: PTH100 - the same


def _entry(shard: ShardEntry) -> dict[str, Any]:
    return {key: value for key, value in shard._asdict().items() if value is not None}


def _load(name: str) -> Any:
    with stores.open_read(name) as stream:
        data = stream.read()
    try:
        return json.loads(data)
    except ValueError as error:
        raise FormatError("the description is not JSON", Where(shard=name), hint="write it again") from error


def _parse(content: Any, base: str | None, name: str, *, nested: bool = False) -> Description:
    if not isinstance(content, Mapping) or content.get("wids_version", 1 if nested else None) != 1:
        raise FormatError("this is not a dataset description of version 1", Where(shard=name), hint='"wids_version": 1')
    shards = [_shard(entry, base, name) for entry in _list_of(content, "shardlist", name)]
    for part in _list_of(content, "datasets", name):
        shards += _component(part, base, name, nested=nested)
    known = {"__kind__", "wids_version", "name", "info", "base", "shardlist", "datasets"}
    return Description(
        shards,
        name=content.get("name"),
        info=content.get("info"),
        base=content.get("base"),
        extra={key: value for key, value in content.items() if key not in known},
    )


def _component(part: Any, base: str | None, name: str, *, nested: bool) -> list[ShardEntry]:
    if not isinstance(part, Mapping) or nested:
        raise FormatError("a part of the description is itself in parts", Where(shard=name), hint="one level only")
    if "source_url" in part:
        address = _merged(str(part["source_url"]), base, name)
        inner = _parse(_load(address), address.rpartition("/")[0], address, nested=True)
    else:
        inner = _parse(part, part.get("base", base), name, nested=True)
    label, weight = part.get("name", inner.name), part.get("weight")
    return [ShardEntry(s.url, s.nsamples, s.filesize, s.md5sum, s.dataset or label, weight) for s in inner.shards]


def _list_of(content: Mapping[str, Any], key: str, name: str) -> list[Any]:
    found = content.get(key, [])
    if not isinstance(found, list):
        raise FormatError(f"{key!r} of the description is not a list", Where(shard=name), hint="write it again")
    return found


def _shard(entry: Any, base: str | None, name: str) -> ShardEntry:
    if not isinstance(entry, (dict, Mapping)) or not isinstance(entry.get("url"), str):
        raise FormatError("a shard of the description has no url", Where(shard=name), hint="write it again")
    nsamples, filesize = entry.get("nsamples"), entry.get("filesize")
    for number in (nsamples, 0 if filesize is None else filesize):
        if type(number) is not int or number < 0:  # which True and False are not
            raise FormatError(f"{entry} has {number!r} for a number", Where(shard=name), hint="write it again")
    url = _merged(entry["url"], base, name)
    if len(entry) == 2:
        return ShardEntry(url, entry["nsamples"])
    return ShardEntry(url, entry["nsamples"], filesize, entry.get("md5sum"), entry.get("dataset"), entry.get("weight"))


def _merged(url: str, base: str | None, name: str) -> str:
    """An address of the description as seen from outside; commands are not taken from files."""
    if base and ":" not in url and ".." not in url and url[:1] not in {"/", ""}:
        return f"{base}{url}" if base[-1] == "/" else f"{base}/{url}"
    if url.startswith("pipe:"):
        raise UnsafeContent(f"{url!r} in a description would run a command", Where(shard=name), hint="give it in code")
    if _SCHEME.match(url) or not base:
        return url
    if url.startswith("/"):
        parts = urlsplit(base)
        return f"{parts.scheme}://{parts.netloc}{url}" if parts.scheme and "://" in base else url
    joined = f"{base.rstrip('/')}/{url}"
    return urljoin(joined, urlsplit(joined).path) if ".." in url and "://" in base else joined
