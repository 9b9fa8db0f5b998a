"""The scheme of an address, and the path of a local one."""

from __future__ import annotations

import os
import re
from collections.abc import Set as AbstractSet
from urllib.parse import unquote, urlsplit

from webdataset.address import Address, Birth, birth_of
from webdataset.errors import SpecError, Where

# Parts of a name that HTTP libraries resolve: the request would be for another object, perhaps in another bucket.
_RESOLVED = re.compile(r"(^|/)\.{1,2}(/|$)")
# The namespace and the name of a repository of the Hugging Face hub.
_REPOSITORY = re.compile(r"hf://(?:models/)?((?:(?:datasets|spaces|buckets)/)?[^/@]+/[^/@]+)")
_WITH_PORT = {"http", "https", "ftp", "ftps", "sftp", "ssh", "hdfs", "webhdfs", "smb", "webdav"}
# A single letter is a Windows drive, not a scheme.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):")


def as_address(url: str | os.PathLike[str]) -> str:
    """The address that a user gave; a path object is always a local file.

    >>> from pathlib import PurePosixPath
    >>> as_address("data/a.tar"), as_address(PurePosixPath("pipe:touch x"))
    ('data/a.tar', './pipe:touch x')
    """
    if isinstance(url, str):
        return url
    if isinstance(url, os.PathLike):
        return local_file(os.fspath(url))
    raise SpecError(f"expected an address as a string or a path, got {type(url).__name__}", hint="try 'data/a.tar'")


def local_file(path: str) -> Address:
    """The address of a local file, whose name is never parsed.

    >>> local_file("pipe:touch x.tar"), scheme_of(local_file("pipe:touch x.tar"))
    ('./pipe:touch x.tar', '')
    """
    # The text without its origin must be harmless too, wherever it is used.
    return Address(path if _SCHEME.match(path) is None and path != "-" else f"./{path}", Birth.FILE)


def scheme_of(url: str, known: AbstractSet[str] = frozenset()) -> str:
    """The scheme in lower case, or "" for a local name.

    >>> scheme_of("s3://b/a.tar"), scheme_of("pipe:cat a.tar"), scheme_of("C:/a.tar"), scheme_of("odd#name?.tar")
    ('s3', 'pipe', '', '')
    >>> scheme_of("note:1.tar")
    ''
    """
    found = None if birth_of(url) is Birth.FILE else _SCHEME.match(url)
    if found is None:
        return ""
    scheme = found[1].lower()
    return scheme if url.startswith("//", found.end()) or scheme in {"pipe", "file"} | known else ""


def local_path(url: str) -> str:
    """The path of a local address; `file:` is percent-decoded, a plain name is used as it is.

    >>> local_path("a#1?.tar"), local_path("file:///data/a%20b.tar"), local_path("file:a.tar")
    ('a#1?.tar', '/data/a b.tar', 'a.tar')

    What was decoded is a path, and not parsed again.

    >>> local_path("file:pipe%3Atouch%20x")
    './pipe:touch x'
    """
    if scheme_of(url) != "file":
        return url
    path = unquote(url[len("file:") :])
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        if host not in {"", "localhost"}:
            raise SpecError("file: URLs name files of this machine, and no host", hint="write file:///folder/name")
        path = slash + rest
    # file:///C:/data.tar
    return local_file(path[1:] if re.match(r"/[A-Za-z]:[/\\]", path) else path)


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host (or bucket, or repository of the hub) and port: equal for addresses of the same owner.

    >>> origin("https://me:secret@h/a.tar") == origin("HTTPS://H:443/b.tar"), origin("s3://bucket/a.tar")
    (True, ('s3', 'bucket', None))

    A host with a backslash is never equal: libraries disagree where it ends.
    """
    parts = urlsplit(url)
    if parts.scheme == "hf":
        found = _REPOSITORY.match(url)
        return "hf", found[1] if found else url, None
    try:
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", url, -1
    if re.search(r"[\\\s\x00-\x1f]", parts.netloc) or "\\" in url[: len(parts.scheme) + 4 + len(parts.netloc)]:
        return "", url, -1
    return parts.scheme, parts.hostname or "", port


def refuse_another_name(url: str, name: str, *, changed: bool = False) -> None:
    """Raise an error for a name under which another object would be opened.

    >>> refuse_another_name("ais://b/../c/a.tar", "../c/a.tar")
    Traceback (most recent call last):
    webdataset.errors.SpecError: the name of this object cannot be opened: ... – ais://b/../c/a.tar – ...

    Args:
        url: the address.
        name: the name in it.
        changed: whether the store would request another name.
    """
    if changed or _RESOLVED.search(name):
        raise SpecError(
            "the name of this object cannot be opened: it has '.' or '..' as a part, or characters that are changed on"
            " the way",
            Where(shard=url),
            hint="copy the object to another name",
        )


def refuse_malformed(url: str, scheme: str) -> None:
    """Raise a typed error for an address that Python's parsers, or those of libraries, would refuse later.

    >>> refuse_malformed("http://[::1/a.tar", "http")
    Traceback (most recent call last):
    webdataset.errors.SpecError: the host or port of this address cannot be parsed – http://[::1/a.tar – write %2F, ...
    """
    if "\0" in url:
        raise SpecError("an address has no null character", Where(shard=url), hint="remove it")
    if scheme in _WITH_PORT and not _has_valid_port(url):
        raise SpecError(
            "the host or port of this address cannot be parsed",
            Where(shard=url),
            hint="write %2F, %23 and %3F for / # and ? in a password",
        )


def _has_valid_port(url: str) -> bool:
    """Whether the port can be parsed. The exception is not passed on: its text may contain a part of the password."""
    try:
        urlsplit(url).port  # noqa: B018 - reading it parses it
    except ValueError:
        return False
    return True
