"""Never two versions in one stream: every kind of validator, server and change gives one version or an error."""

import base64
import hashlib
import itertools
import random

import pytest

from webdataset import stores
from webdataset.errors import StoreError
from webdataset.stores import BytesRead, HttpStore, Patience, is_strong
from webdataset.testing import LoopbackServer
from webdataset.testing._web_server import wanted_range

OLD = random.Random(1).randbytes(200_000)
NEW = {
    "unchanged": OLD,
    "first byte": b"x" + OLD[1:],
    "after the cut": OLD[:-1] + b"x",
    "everything": random.Random(2).randbytes(200_000),
    "shorter": OLD[:150_000],
    "longer": OLD + b"x" * 1000,
}
VALIDATORS = {
    "strong": lambda data: {"ETag": f'"{hashlib.md5(data).hexdigest()}"'},
    "weak": lambda data: {"ETag": 'W/"always the same"'},
    "date": lambda data: {"Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"},
    "none": lambda data: {},
}
CUT = 100_000


class Origin:
    """A server that closes the connection once, and serves another object from then on."""

    def __init__(self, new, validator, *, ranges=True, if_range=True, total=True):
        self.data, self.new, self.validator = OLD, new, validator
        self.ranges, self.if_range, self.total = ranges, if_range, total
        self.requests = 0

    def headers(self):
        first, later = self.validator
        return VALIDATORS[first if self.requests == 1 else later](self.data)

    def __call__(self, handler):
        self.requests += 1
        headers = self.headers()
        span = wanted_range(handler, len(self.data)) if self.ranges else None
        if span and self.if_range and handler.headers.get("If-Range", headers.get("ETag")) != headers.get("ETag"):
            span = None
        start, stop = span or (0, len(self.data))
        if start >= len(self.data):
            self._answer(handler, 416, {"Content-Range": f"bytes */{len(self.data)}" if self.total else "bytes */*"})
            return
        if span:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(self.data) if self.total else '*'}"
        headers["Content-Length"] = str(stop - start)
        body = self.data[start:stop]
        if self.requests == 1:
            body, self.data = body[: CUT - start], self.new
            handler.close_connection = True
        self._answer(handler, 206 if span else 200, headers, body)

    def _answer(self, handler, status, headers, body=b""):
        handler.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)


def read(origin, start=0, **patience):
    with LoopbackServer(origin) as server:
        try:
            with HttpStore(Patience(tries=3, first=0.001, **patience)).open_read(server.url("a"), start) as stream:
                return stream.read()
        finally:
            stores.close_connections()


@pytest.mark.parametrize(
    "change",
    [pytest.param(change, marks=() if change in ("unchanged", "first byte") else pytest.mark.long) for change in NEW],
)
@pytest.mark.parametrize(("first", "later"), list(itertools.product(VALIDATORS, repeat=2)))
def test_one_version_or_an_error(change, first, later):
    """Also where the first answer and the later ones come from servers that are configured differently."""
    for start, ranges, if_range, total in itertools.product((0, 30_000), (True, False), (True, False), (True, False)):
        origin = Origin(NEW[change], (first, later), ranges=ranges, if_range=if_range, total=total)
        case = (start, ranges, if_range, total)
        try:
            data = read(origin, start)
        except StoreError as error:
            assert change != "unchanged" or (first != later and first != "none"), (case, error)
            assert error.where.offset is not None
        else:
            assert data in (OLD[start:], NEW[change][start:]), case
        assert origin.requests < 20, case


@pytest.mark.parametrize("validator", ["weak", "date", "none"])
def test_reading_again_can_be_refused(validator):
    with pytest.raises(StoreError, match="no strong ETag"):
        read(Origin(OLD, (validator, validator)), restart=False)


@pytest.mark.parametrize("etag", [{}, {"ETag": '"v"'}, {"ETag": 'W/"v"'}])
@pytest.mark.parametrize("size", [0, 1, 100])
def test_a_server_that_never_says_where_the_object_ends_is_asked_a_few_times_only(etag, size):
    requests = []

    def respond(handler):
        requests.append(handler.headers["Range"])
        first = int(handler.headers["Range"].split("=")[1].split("-")[0])
        handler.send_response(206)
        for name, value in {**etag, "Content-Range": f"bytes {first}-{first + max(size, 1) - 1}/*"}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(size))
        handler.end_headers()
        handler.wfile.write(bytes(size))

    with LoopbackServer(respond) as server, pytest.raises(StoreError):
        HttpStore(Patience(tries=3, first=0.001)).open_read(server.url("a")).read()
    stores.close_connections()
    assert len(requests) < 20


@pytest.mark.parametrize("good", [True, False])
@pytest.mark.parametrize("kind", ["Repr-Digest", "x-goog-hash"])
def test_a_hash_that_the_server_offers_is_verified(kind, good):
    data = OLD if good else OLD[:-1] + b"x"
    if kind == "Repr-Digest":
        value = f"unixsum=1, sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"
    else:
        value = f"crc32c=AAAAAA==,md5={base64.b64encode(hashlib.md5(data).digest()).decode()}"

    def respond(handler):
        start, stop = wanted_range(handler, len(OLD))
        handler.send_response(206)
        handler.send_header(kind, value)
        handler.send_header("ETag", '"v"')
        handler.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(OLD)}")
        handler.send_header("Content-Length", str(stop - start))
        handler.end_headers()
        handler.wfile.write(OLD[start:stop])

    with LoopbackServer(respond) as server:
        if good:
            assert HttpStore().open_read(server.url("a")).read() == OLD
        else:
            with pytest.raises(StoreError, match="do not match the .* digest"):
                HttpStore().open_read(server.url("a")).read()
        assert HttpStore().open_read(server.url("a"), 5).read() == OLD[5:]  # of a part, no hash is known
    stores.close_connections()


def test_strong_and_weak():
    assert [is_strong(version) for version in ('"a"', 'W/"a"', None)] == [True, False, False]


def test_a_known_version_must_be_confirmed_by_the_first_answer():
    for found in ('"b"', 'W/"a"', None):
        with pytest.raises(StoreError):
            BytesRead("u", 0, '"a"').check(found, 10, offset=0)
    BytesRead("u", 0, '"a"').check('"a"', 10, offset=0)
    with pytest.raises(StoreError):
        BytesRead("u", 0, 'W/"a"').check('W/"b"', 10, offset=0)
    BytesRead("u", 0, 'W/"a"').check('W/"a"', 10, offset=0)
