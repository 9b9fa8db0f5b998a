"""The description of a whole dataset: its shards, the number of samples of each, and how to verify them.

JSON as the `wids` package writes it: `wids_version`, a `shardlist` of `url` and `nsamples` (and `filesize`, `md5sum`),
or `datasets` that contain such lists or name other descriptions by `source_url`. Relative addresses are relative to the
description itself.

Every address of a description is marked as read from data, with the folder of the description as its home. It is
checked here and again when it is opened: no commands, no local files outside that folder, no credentials of another
host (`stores/_trust.py`). The user may name another folder with `base=`; a description cannot.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import IO, Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from webdataset import stores
from webdataset.address import MAX_SHARDS, Address, Birth, home_of, is_from_data
from webdataset.errors import FormatError, SpecError, StaleIndex, UnsafeContent, Where
from webdataset.redact import hides_secrets

KIND = "wids-shard-index-v1"
_MOST = 2**53  # what JSON keeps in every language, and more than there is
# Each part may be a request.
_MOST_PARTS = 10_000
_MD5 = re.compile("[0-9a-fA-F]{32}")


@hides_secrets
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

    def to_json(self) -> dict[str, Any]:
        """The shard as a description lists it: without what is not known."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def check(self, size: int | None) -> None:
        """Raise an error for a shard whose size is not the described one.

        >>> ShardEntry("a.tar", 1000, filesize=2048).check(1024)
        Traceback (most recent call last):
        webdataset.errors.StaleIndex: expected a shard of 2048 bytes, got 1024 – a.tar – ...
        """
        if size is not None and self.filesize is not None and size != self.filesize:
            raise StaleIndex(
                f"expected a shard of {self.filesize} bytes, got {size}",
                Where(shard=self.url),
                hint="describe the dataset again, or download the shard again",
            )


@hides_secrets
@dataclass(frozen=True)
class Description:
    """A dataset as a list of shards.

    >>> Description([ShardEntry("a.tar", 1000), ShardEntry("b.tar", 500)]).nsamples
    1500
    """

    shards: Sequence[ShardEntry]
    name: str | None = None
    info: str | None = None
    base: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    document: _Document | None = field(default=None, repr=False, compare=False)  # what it was read from

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

    def further(self, shardlist: Any) -> Description:
        """Another list of shards that the description contains: its addresses are no more trusted than the others."""
        document = self.document or _Document("the description", "", Birth.MAPPING, "")
        return _parse({"wids_version": 1, "shardlist": shardlist}, document)


@dataclass(frozen=True, slots=True)
class _Document:
    """Where a description was read: its name for messages, and the birth and home of its addresses.

    `base` is what relative addresses are relative to.
    """

    name: str
    base: str
    birth: Birth
    home: str

    def address(self, url: str) -> str:
        """An address of the description, if it may be opened."""
        if self.base and ":" not in url and ".." not in url and url[:1] not in {"/", ""}:
            # Below a base that is checked already: most of the 100,000 shards of a description.
            return Address(f"{self.base}{url}", self.birth, self.home)
        address = Address(_joined(self.base, url), self.birth, self.home)
        stores.permitted(address)
        return address

    def with_base(self, base: Any) -> _Document:
        """The same for a part of the description that names a base of its own."""
        if not isinstance(base, str):
            raise FormatError(f"expected a string for base, got {base!r}", Where(shard=self.name))
        return replace(self, base=_as_folder(self.address(base)))

    def inner(self, name: str) -> _Document:
        """Another description that this one names: its home is that of the first, which the user named."""
        home = self.home if self.birth is Birth.DESCRIPTION else _folder_of(name)
        return _Document(name, _folder_of(name), Birth.DESCRIPTION, home)


def read_description(source: str | PathLike[str] | IO[Any] | Mapping[str, Any], base: str | None = None) -> Description:
    """A description from its JSON (an address, an open file, a mapping), with absolute addresses of the shards.

    >>> content = {"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": 3}]}
    >>> read_description(content, base="s3://b/train").urls
    ['s3://b/train/a.tar']

    Args:
        source: the address of the JSON, an open file, or the content.
        base: what relative addresses are relative to; by default the folder of the description.
    """
    if isinstance(source, str | PathLike):
        name = stores.as_address(source)
        return _parse(_load(name), _document(name, base))
    content = source if isinstance(source, Mapping) else _decoded(source.read(), "the description")
    url, path = getattr(source, "url", None), getattr(source, "name", None)
    # An open file or stream: its author is not trusted, even if the user opened it.
    if isinstance(url, str) or isinstance(path, str):
        return _parse(content, _document(url if isinstance(url, str) else stores.local_file(str(path)), base))
    folder = _as_folder(base or "")
    return _parse(content, _Document("the description", folder, Birth.MAPPING, folder))


def write_description(description: Description) -> bytes:
    """The JSON of a description, as `wids` reads it.

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
    rows = ",\n    ".join(json.dumps(shard.to_json()) for shard in description.shards)
    text = json.dumps({**head, "shardlist": []}, indent=2)
    return text.replace('"shardlist": []', f'"shardlist": [\n    {rows}\n  ]').encode()


def seen_from(description: str, url: str) -> str:
    """Return the address of a shard for a description: relative if possible, so that both can be moved together.

    >>> seen_from("s3://b/train/all.json", "s3://b/train/0.tar"), seen_from("all.json", "s3://b/0.tar")
    ('0.tar', 's3://b/0.tar')
    >>> seen_from("s3://b/all.json", "/data/0.tar")
    Traceback (most recent call last):
    webdataset.errors.SpecError: a description at s3://b/all.json could not name this shard: readers would ...
    """
    folder = description.rpartition("/")[0]
    path, home = stores.is_local(url), stores.is_local(folder or ".")
    if path is None:
        name = url.removeprefix(f"{folder}/") if folder else url
    else:
        name = os.path.abspath(path)
        name = name if home is None else name.removeprefix(f"{os.path.abspath(home).rstrip('/')}/")
    is_elsewhere = path is not None and home is None  # in a description on a server it would be a path of that server
    has_folder = description != "-" and stores.scheme_of(description) != "pipe"
    if has_folder and (is_elsewhere or not _may_open(description, name)):
        raise SpecError(
            f"a description at {description} could not name this shard: readers would refuse it",
            Where(shard=url),
            hint="write the description beside the shards, or name their folder in WDS_TRUSTED_FOLDERS",
        )
    return name


def _may_open(description: str, name: str) -> bool:
    """Whether a reader of the description may open a shard with this name."""
    try:
        _document(description, None).address(name)
    except UnsafeContent:
        return False
    return True


def _document(name: str, base: str | None) -> _Document:
    if base is not None:
        return _Document(name, _as_folder(base), Birth.DESCRIPTION, base)
    if stores.scheme_of(name) == "pipe":
        raise SpecError("a description that a command prints has no folder", Where(shard=name), hint="give base=")
    # A description that data named leads no further than that data.
    home = home_of(name) if is_from_data(name) else _folder_of(name) or "."
    return _Document(name, _folder_of(name), Birth.DESCRIPTION, home)


def _folder_of(name: str) -> str:
    path = name.partition("?")[0] if "://" in name else name
    return path[: path.rfind("/") + 1]


def _as_folder(base: str) -> str:
    return base if not base or base.endswith("/") else f"{base}/"


def _load(name: str) -> Any:
    with stores.open_read(name) as stream:
        return _decoded(stores.read_document(stream, name), name)


def _decoded(data: Any, name: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _malformed("the description is not JSON", name) from error


def _malformed(what: str, name: str, hint: str = "write it again") -> FormatError:
    return FormatError(what, Where(shard=name), hint=hint)


def _parse(content: Any, document: _Document, *, nested: bool = False) -> Description:
    if not isinstance(content, Mapping) or content.get("wids_version", 1 if nested else None) != 1:
        raise _malformed("this is not a dataset description of version 1", document.name, '"wids_version": 1')
    shards = [_shard(entry, document) for entry in _list_of(content, "shardlist", document)]
    for number, part in enumerate(_list_of(content, "datasets", document), 1):
        shards += _component(part, document, nested=nested)
        if len(shards) > MAX_SHARDS or number > _MOST_PARTS:  # the same description may be named again and again
            raise _malformed("the description has too many parts or shards", document.name, "divide the dataset")
    known = {"__kind__", "wids_version", "name", "info", "base", "shardlist", "datasets"}
    return Description(
        shards,
        name=content.get("name"),
        info=content.get("info"),
        base=content.get("base"),
        extra={key: value for key, value in content.items() if key not in known},
        document=document,
    )


def _component(part: Any, document: _Document, *, nested: bool) -> list[ShardEntry]:
    if not isinstance(part, Mapping) or nested:
        raise _malformed("a part of the description has parts itself", document.name, "one level is possible")
    if "source_url" in part:
        address = document.address(str(part["source_url"]))
        inner = _parse(_load(address), document.inner(address), nested=True)
    else:
        inner = _parse(part, document.with_base(part["base"]) if "base" in part else document, nested=True)
    label, weight = part.get("name", inner.name), part.get("weight")
    return [ShardEntry(s.url, s.nsamples, s.filesize, s.md5sum, s.dataset or label, weight) for s in inner.shards]


def _list_of(content: Mapping[str, Any], key: str, document: _Document) -> list[Any]:
    found = content.get(key, [])
    if not isinstance(found, list):
        raise _malformed(f"{key!r} of the description is not a list", document.name)
    return found


def _shard(entry: Any, document: _Document) -> ShardEntry:
    if not isinstance(entry, (dict, Mapping)) or not isinstance(entry.get("url"), str):
        raise _malformed("a shard of the description has no url", document.name)
    nsamples, filesize = entry.get("nsamples"), entry.get("filesize")
    for number in (nsamples, 0 if filesize is None else filesize):
        if type(number) is not int or not 0 <= number <= _MOST:  # which True and False are not
            raise FormatError(f"expected a count in {entry}, got {number!r}", Where(shard=document.name))
    url, md5sum = document.address(entry["url"]), entry.get("md5sum")
    if len(entry) == 2:
        return ShardEntry(url, entry["nsamples"])
    if md5sum is not None and (not isinstance(md5sum, str) or not _MD5.fullmatch(md5sum)):
        raise FormatError(f"expected an MD5 sum of 32 hexadecimal digits, got {md5sum!r}", Where(shard=document.name))
    md5sum = md5sum and md5sum.lower()  # as `hexdigest` has it
    return ShardEntry(url, entry["nsamples"], filesize, md5sum, entry.get("dataset"), entry.get("weight"))


def _joined(base: str, url: str) -> str:
    """An address relative to a folder."""
    if stores.scheme_of(url) or not base:
        return url
    if url.startswith("/"):
        parts = urlsplit(base)
        return f"{parts.scheme}://{parts.netloc}{url}" if parts.scheme and "://" in base else url
    joined = f"{base}{url}"
    return urljoin(joined, urlsplit(joined).path) if ".." in url and "://" in base else joined
