"""From what a user writes to a list of shard addresses: braces, `::`, `${NAME}`, paths, lists, globs, directories."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from braceexpand import braceexpand

from webdataset import config, stores
from webdataset.errors import SpecError

SHARD_SUFFIXES = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.tgz")

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")  # two characters at least: "C:\data" is a path
# A variable may stand for text with variables in it; deeper than this it stands for itself.
_MAX_ROUNDS = 10
# "*" and "?" are ordinary characters there: in commands, in queries, in signed addresses.
_NEVER_GLOBBED = frozenset({"pipe", "http", "https", "ftp", "ftps"})


def envlookup(match: re.Match[str]) -> str:
    """What one `${NAME}` stands for: the environment variable `WDS_NAME`.

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
    raise SpecError(f"the variables in {text!r} stand for themselves", hint="check the WDS_ variables for a circle")


def expand_urls(urls: str | os.PathLike[str] | Iterable[Any]) -> list[str]:
    """Expand `::`, `${NAME}` and braces. Text in, text out: nothing is looked up in a store.

    >>> expand_urls("train-{000..002}.tar::extra.tar")
    ['train-000.tar', 'train-001.tar', 'train-002.tar', 'extra.tar']

    The entries of a list may have braces too; `::` and `${NAME}` mean nothing there.

    >>> expand_urls(["a-{0..1}.tar", "pipe:cut -d: -f1 ${x}"])
    ['a-0.tar', 'a-1.tar', 'pipe:cut -d: -f1 ${x}']
    """
    if isinstance(urls, str):
        return [url for part in urls.split("::") for url in _braces(envsubst(part))]
    if isinstance(urls, os.PathLike):
        return [os.fspath(urls)]
    return [url for entry in _entries(urls) for url in _braces(entry)]


def expand_source(source: str | os.PathLike[str] | Iterable[Any], max_urls: float = 1_000_000_000) -> list[str]:
    """A list of shard addresses out of a string or any iterable, at most `max_urls` long.

    >>> expand_source(iter(["a.tar", "b.tar"]))
    ['a.tar', 'b.tar']
    """
    limit = int(max_urls)
    if isinstance(source, str | os.PathLike) or not isinstance(source, Iterable):
        return expand_urls(source)[:limit]
    return expand_urls(islice(source, limit))[:limit]


def expand(spec: str | os.PathLike[str] | Iterable[Any]) -> list[str]:
    """The shards that a spec means, after looking up globs and directories where they lie.

    >>> expand("train-{0..1}.tar")
    ['train-0.tar', 'train-1.tar']
    >>> expand([])
    Traceback (most recent call last):
    webdataset.errors.SpecError: the list of shards is empty – give at least one shard
    """
    urls = [found for url in expand_urls(spec) for found in _listed(url, is_path=isinstance(spec, os.PathLike))]
    if not urls:
        raise SpecError("the list of shards is empty", hint="give at least one shard")
    return urls


def is_shard_name(url: str) -> bool:
    """Whether an address looks like a tar archive.

    >>> is_shard_name("s3://b/train-000.tar.gz"), is_shard_name("train.json")
    (True, False)
    """
    return url.lower().endswith(SHARD_SUFFIXES)


def _braces(url: str) -> list[str]:
    if "{" not in url:
        return [url]
    try:
        # Backslashes stay: they separate directories on Windows and quote blanks in commands.
        return list(braceexpand(url, escape=False))
    except ValueError as error:
        raise SpecError(f"the braces in {url!r} do not match", hint="write {000..009} or {a,b}") from error


def _entries(urls: Iterable[Any]) -> list[str]:
    if isinstance(urls, bytes) or not isinstance(urls, Iterable):
        raise SpecError(
            f"a {type(urls).__name__} is not a shard spec: {urls!r}",
            hint="give a string such as 'train-{000..099}.tar', a path, or a list of these",
        )
    entries = []
    for entry in urls:
        if not isinstance(entry, str | os.PathLike):
            raise SpecError(f"{entry!r} in the list of shards is not an address", hint="give strings or paths")
        entries.append(str(os.fspath(entry)))
    return entries


def _listed(url: str, *, is_path: bool) -> list[str]:
    if not url:
        raise SpecError("an address in the shard spec is empty", hint="check what stands before and behind each '::'")
    if url.endswith("/") or (is_path and Path(url).is_dir()):
        return _nonempty([found for found in stores.list_urls(url) if is_shard_name(found)], url)
    if _is_glob(url):
        return _nonempty(stores.list_urls(url), url)
    return [url]


def _is_glob(url: str) -> bool:
    scheme = _SCHEME.match(url)
    if scheme is not None and scheme.group(1).lower() != "file":
        return scheme.group(1).lower() not in _NEVER_GLOBBED and "*" in url
    return any(sign in url for sign in "*?[") and not Path(url).exists()


def _nonempty(urls: list[str], pattern: str) -> list[str]:
    if not urls:
        raise SpecError(f"no shard matches {pattern!r}", hint="check the place and the pattern")
    return urls
