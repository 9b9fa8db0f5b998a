"""The credentials of a request: from the address, from `WDS_HTTP_HEADERS`, or from the netrc file.

Credentials that the user keeps for a host are sent for addresses that the user wrote. For an address that was read
from data they are sent only if the document it was read from is on the same host (`_trust.may_send_credentials`).
"""

from __future__ import annotations

import base64
from functools import lru_cache
from urllib.parse import unquote, urlsplit, urlunsplit

from webdataset import config
from webdataset.errors import SpecError

from ._trust import may_send_credentials


def without_userinfo(url: str) -> tuple[str, str | None]:
    """The address without `user:password@`, and the `Authorization` header made of it.

    >>> without_userinfo("https://me:secret@h:8080/a.tar")
    ('https://h:8080/a.tar', 'Basic bWU6c2VjcmV0')
    """
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    user, _, password = userinfo.partition(":")
    return urlunsplit(parts._replace(netloc=host)), _basic(unquote(user), unquote(password))


def secrets_for(url: str) -> tuple[str, dict[str, str]]:
    """The address to request, and the headers with credentials.

    >>> secrets_for("https://me:secret@h/a.tar")
    ('https://h/a.tar', {'Authorization': 'Basic bWU6c2VjcmV0'})
    """
    plain, basic = without_userinfo(url)
    stored = may_send_credentials(url)
    headers = _from_table(plain) if stored else {}
    if basic is not None:
        headers["Authorization"] = basic
    if stored and "authorization" not in {name.lower() for name in headers}:
        headers.update(_from_netrc(urlsplit(plain).hostname or "", config.netrc_path()))
    return plain, headers


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _from_table(url: str) -> dict[str, str]:
    """`WDS_HTTP_HEADERS` maps the beginning of an address to headers; the longest one that matches is used."""
    table = config.read("WDS_HTTP_HEADERS")
    fitting = [prefix for prefix in table if _has_prefix(url, prefix)]
    return dict(table[max(fitting, key=len)]) if fitting else {}


def _has_prefix(url: str, prefix: str) -> bool:
    """A prefix ends at the end of a host or path component: `https://h` is not `https://h.evil.org`."""
    rest = url.removeprefix(prefix) if url.startswith(prefix) else None
    return rest is not None and (prefix.endswith("/") or rest[:1] in {"", "/", "?"})


@lru_cache(maxsize=64)
def _from_netrc(host: str, path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    import netrc

    try:
        entry = netrc.netrc(path).authenticators(host)
    except OSError as error:
        raise SpecError(f"the netrc file {path} cannot be read: {error}", hint="name another file in NETRC") from error
    except (netrc.NetrcParseError, UnicodeDecodeError) as error:
        line = getattr(error, "lineno", None)
    else:
        return {} if entry is None else {"Authorization": _basic(entry[0], entry[2] or "")}
    # Not from that error: it shows the word that it did not expect, which may be a part of a password.
    place = f"line {line} of the netrc file" if line else "the netrc file"
    raise SpecError(f"{place} {path} cannot be read", hint="fix it: quote a password with a blank; or set NETRC")
