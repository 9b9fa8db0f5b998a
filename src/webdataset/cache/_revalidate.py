"""Whether a copy in the cache is still what its origin has."""

from __future__ import annotations

import logging
import threading
import time
from urllib.parse import urlsplit

from webdataset.errors import AccessDenied, ShardNotFound, WebDatasetError
from webdataset.stores import Stat, abandonable, redacted, stat

from ._records import Entry

_log = logging.getLogger(__name__)

POLICIES = ("never", "size+version", "always")
# Seconds for which an origin that did not answer gets no further requests.
_UNREACHABLE = 60.0
_at_once = threading.Event()
_at_once.set()


class Revalidation:
    """Compares copies with their origins, and remembers origins that do not answer.

    >>> Revalidation().is_valid("never", "https://h/a.tar", None)
    True
    """

    def __init__(self) -> None:
        self._unreachable: dict[tuple[str, str], float] = {}

    def is_valid(self, policy: str, url: str, entry: Entry) -> bool:
        """Whether the copy may be used: under `size+version` also if the origin does not answer."""
        if policy == "never":
            return True
        if policy == "always":
            return _is_same(stat(url), entry)
        parts = urlsplit(url)
        origin = (parts.scheme, parts.netloc)
        if time.monotonic() < self._unreachable.get(origin, 0):
            return True
        try:
            with abandonable(_at_once):  # no retries: there is a copy
                return _is_same(stat(url), entry)
        except WebDatasetError as error:
            if not isinstance(error, ShardNotFound | AccessDenied):  # these are answers about this shard only
                self._unreachable[origin] = time.monotonic() + _UNREACHABLE
            _log.info("%s: using the copy in the cache, its origin does not send it (%s)", redacted(url), error)
            return True


def _is_same(found: Stat, entry: Entry) -> bool:
    same_size = found.size is None or found.size == entry.size
    return same_size and (found.etag is None or entry.version is None or found.etag == entry.version)
