"""File names for addresses."""

from __future__ import annotations

import hashlib
import os
import re
from urllib.parse import quote, urlparse

from webdataset import config
from webdataset.errors import ObsoleteException, SpecError
from webdataset.stores import redacted, scheme_of

# Addresses whose last component is a file name; for others the public library uses the end of the quoted address.
_PATHLIKE = {"", "file", "http", "https", "ftp", "ftps", "gs", "s3", "ais"}
# File systems allow 255 bytes, including our hash and endings.
_LONGEST = 120


def url_to_hashed_name(url: str) -> str:
    """The default name: a hash of the full address, and its last component to make it readable.

    >>> url_to_hashed_name("https://h/a/train-0.tar")
    '93094a0b18624203-train-0.tar'
    >>> url_to_hashed_name("https://h/b/train-0.tar")
    '648ee6276d10e937-train-0.tar'
    """
    readable = re.sub(
        r"[^\w.-]+", "_", re.split(r"[?#]", redacted(url).rstrip("/"))[0].rsplit("/", 1)[-1], flags=re.ASCII
    )
    return f"{url_hash(url)}-{readable[-_LONGEST:]}"


def url_hash(url: str) -> str:
    """A short digest of the full address.

    >>> len(url_hash("https://h/a.tar"))
    16
    """
    return hashlib.blake2b(url.encode(), digest_size=8).hexdigest()


def url_to_cache_name(url: str, ndir: int = 0) -> str:
    """The public library's name: the last component, with `ndir` directories before it; addresses can collide.

    >>> url_to_cache_name("https://h/a/b.tar?x=1"), url_to_cache_name("https://h/a/b.tar", ndir=1)
    ('b.tar', 'a/b.tar')

    A name that would have a secret is that of `url_to_hashed_name` instead.
    """
    assert isinstance(url, str), "the public library raises this for anything but a string"
    parsed = urlparse(url)
    if parsed.scheme in _PATHLIKE:
        name = shown = "/".join(parsed.path.lstrip("/").split("/")[-1 - ndir :])
    else:
        name, shown = quote(url, safe="_+{}*,-")[-128:], url
    return name if redacted(shown) == shown else url_to_hashed_name(url)


def pipe_cleaner(spec: str) -> str:
    """Guess the address inside a `pipe:` command; obsolete in the public library and here.

    >>> os.environ["ALLOW_OBSOLETE"] = "1"
    >>> pipe_cleaner("pipe:curl -s http://h/a.tar | cat")
    'http://h/a.tar'
    >>> del os.environ["ALLOW_OBSOLETE"]
    """
    if not config.read("ALLOW_OBSOLETE"):
        hint = "leave url_to_name out, or set ALLOW_OBSOLETE=1 to permit it"
        raise ObsoleteException("pipe_cleaner is obsolete", hint=hint)
    if spec.startswith("pipe:"):
        for word in spec[len("pipe:") :].split():
            if re.match(r"^(https?|hdfs|gs|ais|s3):", word):
                return word
    return spec


def islocal(url: str) -> bool:
    """Whether an address names a file of this machine.

    >>> islocal("a.tar"), islocal("file:a.tar"), islocal("pipe:cat a.tar")
    (True, True, False)
    """
    return scheme_of(url) in {"", "file"}


def safe_name(name: str, url: str) -> str:
    """A name that stays inside the cache directory, or an error.

    >>> safe_name("a/b.tar", "u")
    'a/b.tar'
    """
    parts = name.split("/")
    if not isinstance(name, str) or not name or os.path.isabs(name) or any(part in {"", ".", ".."} for part in parts):
        raise SpecError(f"{name!r} cannot be the file name for {url}", hint="url_to_name must return a relative path")
    if parts[0].startswith(".webdataset"):
        raise SpecError(f"{name!r} is reserved for the records of the cache", hint="let url_to_name return another")
    return name
