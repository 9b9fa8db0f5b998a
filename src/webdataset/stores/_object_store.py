"""Object stores of the clouds: s3, gs, az, through obstore.

A name in an address is the key itself, as in the clouds' own tools: `%`, `+`, `?` and `#` have no special meaning, so
that a listed address opens the listed object. Keys that obstore would change (`a//b`, `a/`, `..`, control characters)
are refused.

Credentials, region and endpoint come from the variables that each cloud's own tools read (AWS_ACCESS_KEY_ID,
AWS_ENDPOINT_URL, AWS_SKIP_SIGNATURE, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME, …).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from webdataset import config
from webdataset.errors import AccessDenied, ShardNotFound, SpecError, StoreError, StoreTimeout, Where
from webdataset.optional import require

from ._broker import BrokeredStore
from ._parse_address import refuse_another_name
from ._resuming_stream import PASSING_STATUSES, Body, PastTheEnd, Patience, ResumingStream, persist, retryable
from ._same_object import BytesRead, changed, is_strong
from ._store import Stat, Store, checked_range, read_fully
from ._upload import Upload

_CHUNK = 1 << 20
# S3's smallest part is 5 MiB, and an object has at most 10,000 parts: this allows 160 GB.
_PART = 16 << 20
# Keys that obstore refuses, or opens under another name, besides those with `..`.
_CHANGED_BY_OBSTORE = re.compile(r"^/|//|/$|[\x00-\x1f\x7f]")


# The process whose obstore runtime is running; its threads do not exist in a forked child, where calls would hang.
_runtime: list[int] = []


class CloudStore(Store):
    """Buckets of S3, Google Cloud Storage and Azure.

    >>> CloudStore(patience=Patience(tries=3))
    CloudStore()
    """

    kind = "cloud"

    def __init__(self, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()

    def open_read(self, url: str, start: int = 0) -> Any:
        if _forked():
            return BrokeredStore().open_read(url, start)
        return ResumingStream(url, lambda at, version: _body(url, at, version), start, self.patience, self.kind)

    def read_range(
        self, url: str, start: int, length: int, version: str | None = None, size: int | None = None
    ) -> bytes:
        if _forked() or not length:
            return BrokeredStore().read_range(url, start, length, version, size) if length else b""
        return persist(lambda: _range(url, start, length, version, size), url, self.patience, self.kind)

    def stat(self, url: str) -> Stat:
        if _forked():
            return BrokeredStore().stat(url)
        return persist(lambda: _head(url), url, self.patience, self.kind)

    def open_write(self, url: str) -> Any:
        if _forked():
            return BrokeredStore().open_write(url)
        return _CloudUpload(url)

    def list(self, prefix: str) -> Iterator[str]:
        if _forked():
            return BrokeredStore().list(prefix)
        return iter(persist(lambda: _list(prefix), prefix, self.patience, self.kind))


class _CloudBody(Body):
    def __init__(self, url: str, result: Any, start: int, *, ranged: bool) -> None:
        self.start, self.ranged = start, ranged
        self.size, self.version = result.meta["size"], result.meta.get("e_tag")
        self._url = url
        self._pieces = iter(result.stream(min_chunk_size=_CHUNK))
        self._rest = memoryview(b"")

    def read1(self, size: int) -> bytes:
        return bytes(self._next(size))

    def readinto(self, view: memoryview) -> int:
        piece = self._next(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def _next(self, size: int) -> memoryview:
        if not self._rest:
            with obstore_errors(self._url):
                self._rest = memoryview(next(self._pieces, b""))
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    def close(self) -> None:
        self._pieces = iter(())


class _CloudUpload(Upload):
    """A multipart upload; the object is visible only after the last part was sent and the upload was completed."""

    def __init__(self, url: str) -> None:
        import obstore

        self._finished = True  # until there is something to publish or discard
        self._url = url
        store, path = _client_and_key(url, retries=10)
        with obstore_errors(url):
            self._writer = obstore.open_writer(store, path, buffer_size=_PART)
            self._writer.__enter__()
        self._finished = False

    def write(self, data: Any, /) -> int:
        with obstore_errors(self._url):
            self._writer.write(bytes(data))
        return len(data)

    def publish(self) -> None:
        with obstore_errors(self._url):
            self._writer.close()

    def discard(self) -> None:
        # obstore's writer discards the parts when its block is left by an exception.
        with obstore_errors(self._url):
            self._writer.__exit__(RuntimeError, RuntimeError("discarded"), None)


def _body(url: str, start: int, version: str | None) -> _CloudBody:
    import obstore

    store, path = _client_and_key(url)
    options = _must_match(version)
    with obstore_errors(url, start):
        if not start:
            return _CloudBody(url, obstore.get(store, path, options=options), 0, ranged=True)
        try:
            result = obstore.get(store, path, options={**options, "range": {"offset": start}})
        except obstore.exceptions.GenericError as error:
            # The server ignores ranges, and obstore refuses its answer: read from the beginning and skip forward.
            if "non-partial response" not in str(error):
                raise
            return _CloudBody(url, obstore.get(store, path, options=options), 0, ranged=False)
        return _CloudBody(url, result, start, ranged=True)


def _must_match(version: str | None) -> dict[str, Any]:
    return {"if_match": version} if is_strong(version) else {}


def _range(url: str, start: int, length: int, version: str | None, size: int | None) -> bytes:
    import obstore

    store, path = _client_and_key(url)
    with obstore_errors(url, start):
        try:
            options = {**_must_match(version), "range": (start, start + length)}
            result = obstore.get(store, path, options=options)
            BytesRead(url, start, version, size).check(result.meta.get("e_tag"), result.meta["size"], start)
            data = bytes(result.bytes())
        except obstore.exceptions.GenericError as error:
            if "non-partial response" not in str(error):
                raise
            with CloudStore().open_read(url, start) as stream:
                BytesRead(url, start, version, size).check(stream.version, stream.size, start)
                data = read_fully(stream, length)
    return checked_range(data, url, start, length)


def _head(url: str) -> Stat:
    import obstore

    store, path = _client_and_key(url)
    with obstore_errors(url):
        found = obstore.head(store, path)
    return Stat(found["size"], found.get("e_tag"), found["last_modified"].timestamp())


def _list(prefix: str) -> list[str]:
    import obstore

    bucket, path = _split(prefix)
    # obstore lists whole directories; the rest of the prefix is compared here.
    folder = path.rpartition("/")[0]
    with obstore_errors(prefix):
        found = [item["path"] for batch in obstore.list(_client(bucket), prefix=folder or None) for item in batch]
    # `a/`, the marker of a directory, is listed as `a`: if there is an `a` too, once.
    return [f"{bucket}/{name}" for name in dict.fromkeys(found) if name.startswith(path)]


def _client_and_key(url: str, retries: int = 0) -> tuple[Any, str]:
    """The obstore object for the bucket of an address, and the key in it."""
    bucket, path = _split(url)
    with obstore_errors(url):
        client = _client(bucket, retries)
    refuse_another_name(url, path, changed=_CHANGED_BY_OBSTORE.search(path) is not None)
    return client, path


def _split(url: str) -> tuple[str, str]:
    """The bucket's address and the key. `urlsplit` would remove newlines and stop at `?` and `#`."""
    scheme, _, rest = url.partition("://")
    bucket, _, path = rest.partition("/")
    if not bucket:
        hint = f"write {scheme.partition(':')[0]}://bucket/name"
        raise SpecError("there is no bucket in this address", Where(shard=url), hint=hint)
    return f"{scheme}://{bucket}", path


def _client(bucket: str, retries: int = 0) -> Any:
    if not _runtime:
        _runtime.append(os.getpid())
    return _store(bucket, retries, config.read("WDS_TIMEOUT"), config.cloud())


@lru_cache(maxsize=32)
def _store(bucket: str, retries: int, timeout: float, _environment: tuple[tuple[str, str], ...]) -> Any:
    """One client, with its pooled connections, per bucket and environment."""
    from datetime import timedelta

    stores = require("obstore.store", extra="cloud", why=f"to reach {bucket}")
    return stores.from_url(
        bucket,
        # Plain http is used only for a user's endpoint with http://. No limit for a whole request: shards are large.
        client_options={
            "allow_http": True,
            "connect_timeout": timedelta(seconds=min(timeout, 30)),
            "read_timeout": timedelta(seconds=timeout),
            "timeout": timedelta(days=1),
        },
        # Reading is retried by ResumingStream, which counts; parts of an upload only obstore can send again.
        retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=max(60, timeout))},
    )


@contextmanager
def obstore_errors(url: str, offset: int | None = None) -> Iterator[None]:
    """Turn obstore's exceptions into typed errors."""
    try:
        yield
    except (StoreError, SpecError):
        raise
    except FileNotFoundError as error:
        raise ShardNotFound(_first_line(error), Where(shard=url), hint="check bucket and name") from error
    except BaseException as error:
        from obstore import exceptions

        if type(error).__name__ == "PanicException":  # of pyo3, which is no Exception
            hint = "check the credentials in the environment: a line end at the end of a token does this"
            raise StoreError(f"the library for object stores failed: {error}", Where(shard=url), hint=hint) from error
        if not isinstance(error, exceptions.BaseError | OSError | ValueError):
            raise
        raise _typed_error(error, exceptions, url, offset) from error


def _typed_error(error: Exception, exceptions: Any, url: str, offset: int | None) -> StoreError:
    what, where = _first_line(error), Where(shard=url)
    found = re.search(r"status code: (\d+)", what)
    status = int(found[1]) if found else 0
    if status == 404:
        return ShardNotFound(what, where, hint="check bucket and name")
    if status in {401, 403} or isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        vendor = {"gs": "GOOGLE", "s3": "AWS", "s3a": "AWS"}.get(urlsplit(url).scheme, "AZURE")
        key = {"GOOGLE": "GOOGLE_APPLICATION_CREDENTIALS", "AWS": "AWS_ACCESS_KEY_ID"}.get(
            vendor, "AZURE_STORAGE_ACCOUNT_NAME"
        )
        hint = f"check {key} and the other credentials, or read a public bucket with {vendor}_SKIP_SIGNATURE=true"
        return AccessDenied(what, where, hint=hint)
    if isinstance(error, exceptions.PreconditionError):
        return changed(url, offset or 0, "its ETag is different now")
    size = re.search(r"<ActualObjectSize>(\d+)<|object was only (\d+) bytes long", str(error))
    if status == 416 or size:
        past = PastTheEnd(what, where)
        past.size = int(size[1] or size[2]) if size else None
        return past
    if "timed out" in str(error) or "timeout" in what:
        return StoreTimeout(what, where, hint="WDS_TIMEOUT sets the seconds to wait")
    final = StoreError(what, where, hint="check the endpoint, the bucket and the credentials in the environment")
    return final if 400 <= status < 500 and status not in PASSING_STATUSES else retryable(final)


def _first_line(error: Exception) -> str:
    """The first line of a message; the library appends the whole chain of causes."""
    return str(error).partition("\n")[0].partition("<?xml")[0].rstrip(" :")


def _forked() -> bool:
    return bool(_runtime) and _runtime[0] != os.getpid()
