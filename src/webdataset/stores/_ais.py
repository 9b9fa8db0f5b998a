"""`ais://`: NVIDIA AIStore through its REST interface, and other clouds through it (`USE_AIS_FOR`).

The proxy at `AIS_ENDPOINT` redirects every request for an object to the node that stores it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from webdataset import config
from webdataset.address import Birth, birth_of
from webdataset.errors import SpecError, StoreError, Where

from ._http import HttpStore
from ._parse_address import refuse_another_name, scheme_of
from ._request import Request, every_page, request_list
from ._resuming_stream import persist

# Schemes that AIStore has another name for.
_PROVIDERS = {"s3": "aws", "gs": "gcp", "az": "azure", "oc": "oci"}
# Query parameters that may follow the name of an object.
_OPTIONS = {"etl_name", "etl_args", "etl_pipeline", "archpath", "archregx", "archmode", "latest-ver"}


class AisStore(HttpStore):
    """AIStore: reading with resume, writing, listing, and transformations by the server (`?etl_name=…`).

    >>> AisStore()
    AisStore()
    """

    kind = "ais"

    def target(self, url: str) -> Request:
        bucket, name, query = parse(url)
        if not name:
            raise SpecError("the address names no object", Where(shard=url), hint="write ais://bucket/object")
        return self._request(f"objects/{quote(bucket)}/{quote(name)}", query)

    def list(self, prefix: str) -> Iterator[str]:
        bucket, name, query = parse(prefix)
        start = prefix[: len(prefix) - len(name)] if name else prefix
        if not start.endswith("/"):
            start += "/"
        wanted = self._request(f"buckets/{quote(bucket)}", {"provider": query["provider"]})

        def request_page(token: str) -> tuple[list[str], str]:
            value = {"prefix": name, "continuation_token": token, "pagesize": 0, "props": "name,size"}
            return persist(lambda: _page(wanted, value), prefix, self.patience, self.kind)

        return (start + name_in_bucket for name_in_bucket in every_page(request_page, ""))

    def _request(self, path: str, query: dict[str, str]) -> Request:
        endpoint = config.read("AIS_ENDPOINT")
        if not endpoint:
            raise StoreError("AIS_ENDPOINT is not set", hint="for example AIS_ENDPOINT=http://localhost:8080")
        token = config.read("AIS_AUTHN_TOKEN")
        secrets = {"Authorization": f"Bearer {token}"} if token else {}
        return Request.to(f"{endpoint.rstrip('/')}/v1/{path}?{urlencode(query)}", secrets)


def parse(url: str) -> tuple[str, str, dict[str, str]]:
    """Bucket, object and query of an address.

    >>> parse("ais://b/dir/a.tar?etl_name=resize")
    ('b', 'dir/a.tar', {'provider': 'ais', 'etl_name': 'resize'})
    >>> parse("s3://b/a.tar")
    ('b', 'a.tar', {'provider': 'aws'})
    >>> parse("ais://@cluster#space/b/a.tar")
    ('b', 'a.tar', {'provider': 'ais', 'namespace': '@cluster#space'})
    """
    scheme = scheme_of(url)
    rest = url[len(scheme) + 3 :]
    query = {"provider": _PROVIDERS.get(scheme, scheme)}
    if rest.startswith("@"):
        query["namespace"], _, rest = rest.partition("/")
    rest, _, options = rest.partition("?")
    found = dict(parse_qsl(options))
    if set(found) - _OPTIONS and birth_of(url) is not Birth.LISTING:
        raise SpecError(
            f"unknown options for AIStore: {sorted(set(found) - _OPTIONS)}",
            Where(shard=url),
            hint=f"known: {sorted(_OPTIONS)}",
        )
    bucket, _, name = rest.partition("/")
    if not bucket:
        raise SpecError("the address names no bucket", Where(shard=url), hint="write ais://bucket/object")
    # A listed name is the name itself: options in it would come from an untrusted source.
    refuse_another_name(url, name, changed=bool(options) and birth_of(url) is Birth.LISTING)
    return bucket, name, {**query, **found}


def _page(wanted: Request, value: dict[str, Any]) -> tuple[list[str], str]:
    """Names of objects, and the token of the next page."""
    body = json.dumps({"action": "list", "name": "", "value": value}).encode()
    with_body = wanted.adding(**{"Content-Type": "application/json", "Accept": "application/json"})

    def read(page: Any, _: object) -> tuple[list[str], str]:
        return [entry["name"] for entry in page.get("entries") or ()], page.get("continuation_token") or ""

    return request_list(with_body, read, "AIS_ENDPOINT", body)
