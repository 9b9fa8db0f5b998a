"""Connections that are kept open, per process: a forked child does not use its parent's sockets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from webdataset import config
from webdataset.errors import SpecError
from webdataset.mutex import Mutex

from ._broker import close_brokers

if TYPE_CHECKING:
    import urllib3

# Idle connections kept per host: as many as a read-ahead is likely to use.
_KEPT = 16

_managers: dict[str | None, urllib3.PoolManager] = {}
_lock = Mutex()


def manager(url: str) -> urllib3.PoolManager:
    """The pool for an address: direct, or through the proxy that the environment names for it."""
    proxy = config.proxy(url)
    with _lock:
        if proxy not in _managers:
            _managers[proxy] = _new_manager(proxy)
        return _managers[proxy]


def close_connections() -> None:
    """Close all idle connections of this process, and its brokers; the next request opens new ones.

    >>> close_connections()
    """
    with _lock:
        managers = list(_managers.values())
        _managers.clear()
    for known in managers:
        for key in known.pools.keys():  # noqa: SIM118 - not a dict: it cannot be iterated over
            known.pools[key].close()  # clear() leaves this to the garbage collector
        known.clear()
    close_brokers()


def _new_manager(proxy: str | None) -> urllib3.PoolManager:
    import urllib3

    from ._timely_headers import with_timely_headers

    options: dict[str, Any] = {"num_pools": 32, "maxsize": _KEPT, "retries": False}
    if proxy is None:
        return with_timely_headers(urllib3.PoolManager(**options))
    try:
        parsed = urllib3.util.parse_url(proxy)
    except urllib3.exceptions.LocationParseError:
        parsed = None
    if parsed is None:  # outside of the handler: the message of urllib3 may have a part of the password
        hint = "check HTTPS_PROXY and HTTP_PROXY; write %2F for a slash in a password"
        raise SpecError("the address of the proxy in the environment cannot be parsed", hint=hint)
    headers = urllib3.make_headers(proxy_basic_auth=parsed.auth) if parsed.auth else None
    return with_timely_headers(urllib3.ProxyManager(parsed._replace(auth=None).url, proxy_headers=headers, **options))


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - the parent's lock may have been held by a thread that does not exist here
    _lock = Mutex()
    _managers.clear()


os.register_at_fork(after_in_child=_after_fork)
