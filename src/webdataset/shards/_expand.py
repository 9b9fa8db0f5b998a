"""From a shard specification to a list of addresses: braces, `::`, `${NAME}`, paths, lists, globs, directories.

Only strings of the user are expanded. A path object and an address that was read from data are never parsed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from braceexpand import braceexpand

from webdataset import config, stores
from webdataset.address import MAX_SHARDS, Address, Birth, in_use
from webdataset.errors import SpecError

SHARD_SUFFIXES = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.tgz")

_VARIABLE = re.compile(r"\$\{(\w+)\}")
# A variable may contain other variables; after more rounds than this it must refer to itself.
_MAX_ROUNDS = 10
_RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.(-?\d+))?")


def envlookup(match: re.Match[str]) -> str:
    """The value of one `${NAME}`: the environment variable `WDS_NAME`.

    >>> import os; os.environ["WDS_BUCKET"] = "gs://b"
    >>> envlookup(re.match(r"[$]{(BUCKET)}", "${BUCKET}"))
    'gs://b'
    >>> del os.environ["WDS_BUCKET"]
    """
    name = match.group(1)
    value = config.substitution(name)
    if value is None:
        raise SpecError(
            f"missing environment variable WDS_{name} for ${{{name}}} in the shard spec {match.string!r}",
            hint=f"set WDS_{name}",
        )
    return value


def envsubst(text: str) -> str:
    """Replace every `${NAME}` by the environment variable `WDS_NAME`.

    >>> import os; os.environ["WDS_BUCKET"] = "gs://b"
    >>> envsubst("${BUCKET}/train.tar")
    'gs://b/train.tar'
    >>> del os.environ["WDS_BUCKET"]
    """
    for _ in range(_MAX_ROUNDS):
        substituted = _VARIABLE.sub(envlookup, text)
        if substituted == text:
            return text
        text = substituted
    raise SpecError(f"circular ${{…}} substitution in {text!r}", hint="check the WDS_ variables")


def expand_urls(urls: str | os.PathLike[str] | Iterable[Any]) -> list[str]:
    """Expand `::`, `${NAME}` and braces. Nothing is looked up in a store.

    >>> expand_urls("train-{000..002}.tar::extra.tar")
    ['train-000.tar', 'train-001.tar', 'train-002.tar', 'extra.tar']

    The entries of a list may have braces too; `::` and `${NAME}` are not expanded there.

    >>> expand_urls(["a-{0..1}.tar", "pipe:cut -d: -f1 ${x}"])
    ['a-0.tar', 'a-1.tar', 'pipe:cut -d: -f1 ${x}']
    """
    return list(_bounded(_expanded(urls)))


def expand_source(source: str | os.PathLike[str] | Iterable[Any], max_urls: float = 1_000_000_000) -> list[str]:
    """A list of shard addresses from a string or any iterable, at most `max_urls` long.

    >>> expand_source(iter(["a.tar", "b.tar"]))
    ['a.tar', 'b.tar']
    """
    return list(_bounded(islice(_expanded(source), int(max_urls))))


def expand(spec: str | os.PathLike[str] | Iterable[Any]) -> list[str]:
    """The shards of a specification, after listing globs and directories in their stores.

    >>> expand("train-{0..1}.tar")
    ['train-0.tar', 'train-1.tar']
    >>> expand([])
    Traceback (most recent call last):
    webdataset.errors.SpecError: the list of shards is empty – give at least one shard

    An iterator, such as `Path.glob("*.tar")`, is consumed: keep the list that is returned.
    """
    is_path = isinstance(spec, os.PathLike)
    listed = (found for url in _expanded(spec) for found in _listed(url, is_path=is_path))
    urls = in_use(_bounded(listed), rewritten=bool(config.read("GOPEN_REWRITE")))
    if not urls:
        raise SpecError("the list of shards is empty", hint="give at least one shard")
    return urls


def expand_in_file(entries: Iterable[str], file: str, *, paths: Birth = Birth.SPEC) -> list[str]:
    """The shards that the entries of a file name, as addresses that were read from data: braces, globs, directories.

    A relative path is relative to the current directory. A file on a server names no files of this machine.

    >>> expand_in_file(["a-{0..1}.tar"], "list.txt")
    ['a-0.tar', 'a-1.tar']
    >>> expand_in_file(["pipe:touch x"], "list.txt")
    Traceback (most recent call last):
    webdataset.errors.UnsafeContent: pipe: commands are not run when they come from a spec, list or table – ...

    Args:
        entries: what the file says.
        file: its address.
        paths: the birth of local paths in a file of this machine; `MAPPING` allows all.
    """
    addresses = (address_in_file(text, file, paths=paths) for text in _expanded(list(entries)))
    return in_use(_bounded(found for address in addresses for found in _looked_up(address)))


def address_in_file(text: str, file: str, *, paths: Birth = Birth.SPEC) -> Address:
    """The same of one address, without braces and globs; an error if it may not be opened."""
    is_here = file == "-" or stores.scheme_of(file) in {"", "file", "pipe"}
    scheme = stores.scheme_of(text)
    home = "." if is_here and not scheme and not os.path.isabs(text) else file[: file.rfind("/") + 1]
    address = Address(text, paths if is_here and scheme in {"", "file"} else Birth.SPEC, home)
    stores.permitted(address)
    return address


def kept(spec: Any) -> Any:
    """A specification that can be read more than once: an iterator (`Path.glob(...)`) becomes the list of its entries.

    >>> kept(iter(["a.tar", "b.tar"])), kept("a.tar")
    (['a.tar', 'b.tar'], 'a.tar')
    """
    return list(_bounded(spec)) if isinstance(spec, Iterator) else spec


def is_shard_name(url: str) -> bool:
    """Whether an address looks like a tar archive.

    >>> is_shard_name("s3://b/train-000.tar.gz"), is_shard_name("train.json")
    (True, False)
    """
    return url.lower().endswith(SHARD_SUFFIXES)


def _expanded(urls: str | os.PathLike[str] | Iterable[Any]) -> Iterator[str]:
    if isinstance(urls, Address):
        yield urls
    elif isinstance(urls, str):
        for part in urls.split("::"):
            yield from _braces(envsubst(part))
    elif isinstance(urls, os.PathLike):
        yield stores.local_file(os.fspath(urls))
    else:  # a set has another order in each process, and every rank has to see the same
        yield from _entries(sorted(urls, key=str) if isinstance(urls, set | frozenset) else urls)


def _entries(urls: Iterable[Any]) -> Iterator[str]:
    if isinstance(urls, bytes) or not isinstance(urls, Iterable):
        raise SpecError(
            f"expected a shard specification, got {type(urls).__name__} {urls!r}",
            hint="give a string such as 'train-{000..099}.tar', a path, or a list of these",
        )
    for entry in urls:
        if isinstance(entry, Address):
            yield entry
        elif isinstance(entry, str):
            yield from _braces(entry)
        elif isinstance(entry, os.PathLike):
            yield from _path(os.fspath(entry))
        else:
            raise SpecError(f"expected addresses in the list of shards, got {entry!r}", hint="give strings or paths")


def _path(path: str) -> Iterator[str]:
    """A path in a list: the file of that name if there is one, otherwise its braces are expanded."""
    names = [path] if "{" not in path or os.path.exists(path) else _braces(path)
    return (stores.local_file(name) for name in names)


def _braces(url: str) -> Iterator[str]:
    if "{" not in url:
        return iter((url,))
    count = _count(url)
    if count > MAX_SHARDS:
        raise _too_many(f"{url!r} names {count:,} shards")
    try:
        # Backslashes stay: they separate directories on Windows and quote spaces in commands.
        expansion: Iterator[str] = braceexpand(url, escape=False)
    except ValueError as error:
        raise SpecError(f"unbalanced braces in {url!r}", hint="write {000..009} or {a,b}") from error
    return expansion


def _count(url: str) -> int:
    """Count the addresses of braces without making them: alternatives in `{a,b}` add, braces side by side multiply."""
    totals, products, starts = [0], [1], [0]
    for position, sign in enumerate(url):
        if sign == "{":
            totals.append(0)
            products.append(1)
            starts.append(position + 1)
        elif sign == "," and len(totals) > 1:
            totals[-1] += products[-1]
            products[-1] = 1
        elif sign == "}" and len(totals) > 1:
            inside = _RANGE.fullmatch(url, starts.pop(), position)
            total, product = totals.pop(), products.pop()
            products[-1] *= _length(inside) if inside else total + product
    return products[0]


def _length(found: re.Match[str]) -> int:
    low, high = (ord(end) if end.isalpha() else int(end) for end in (found[1], found[2]))
    step = int(found[3] or 1)
    return abs(high - low) // max(1, abs(step)) + 1


def _bounded(urls: Iterator[str]) -> Iterator[str]:
    """Yield the addresses; more than `MAX_SHARDS` of all entries of a list together are an error."""
    yield from islice(urls, MAX_SHARDS)
    if next(urls, None) is not None:
        raise _too_many("the specification names too many shards")


def _too_many(what: str) -> SpecError:
    return SpecError(what, hint=f"at most {MAX_SHARDS:,} shards are possible (MAX_SHARDS): check the braces")


def _listed(url: str, *, is_path: bool) -> list[str]:
    if not url:
        raise SpecError("an address in the shard spec is empty", hint="check the text before and after each '::'")
    if isinstance(url, Address):
        return _directory(url) if is_path and os.path.isdir(url) else [url]
    return _looked_up(url)


def _looked_up(url: str) -> list[str]:
    if url.endswith("/"):
        return _directory(url)
    if _is_glob(url):
        return _nonempty(stores.list_urls(url), url)
    return [url]


def _directory(url: str) -> list[str]:
    return _nonempty([found for found in stores.list_urls(url) if is_shard_name(found)], url)


def _is_glob(url: str) -> bool:
    scheme = stores.scheme_of(url)
    if scheme not in {"", "file"}:
        # "*" is an ordinary character in commands and in web addresses with a query, such as a signature.
        names_one = scheme == "pipe" or (scheme in {"http", "https"} and "?" in url)
        return "*" in url and not names_one
    return any(sign in url for sign in "*?[") and not os.path.exists(url)


def _nonempty(urls: list[str], pattern: str) -> list[str]:
    if not urls:
        raise SpecError(f"no shard matches {pattern!r}", hint="check the location and the pattern")
    return urls
