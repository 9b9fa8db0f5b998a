"""A server that answers anything: a typed error or the right bytes, in a few requests, and nothing else is opened."""

import pytest

from webdataset import stores
from webdataset.errors import WebDatasetError
from webdataset.testing import LoopbackServer

REDIRECTS = {
    "file": "file://{here}/secret.tar",
    "command": "pipe:touch {here}/owned",
    "command in capitals": "PIPE:touch {here}/owned",
    "ftp": "ftp://127.0.0.1:{port}/a.tar",
    "object store": "s3://bucket/a.tar",
    "socket": "http+unix://%2Ftmp/a.tar",
    "data": "data:,abc",
    "script": "javascript:alert(1)",
    "itself": "/a.tar",
    "itself, without a scheme": "//127.0.0.1:{port}/a.tar",
    "itself, with a password": "http://user:secret@127.0.0.1:{port}/a.tar",
    "nowhere": "",
    "no port": "http://127.0.0.1:99999/a.tar",
    "no host": "http://[::1/a.tar",
    "a space": "http://127.0.0.1:{port} /a.tar",
    "a null": "http://127.0.0.1:{port}/a\0b",
    "too long": "/" + "a" * 100_000,
}
HEAD = b"HTTP/1.1 200 OK\r\n"
ANSWERS = {
    "negative length": HEAD + b"Content-Length: -5\r\n\r\nabc",
    "huge length": HEAD + b"Content-Length: 99999999999999999999\r\n\r\nabc",
    "two lengths": HEAD + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
    "a length of letters": HEAD + b"Content-Length: x\r\n\r\nabc",
    "a length and chunks": HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    "huge chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nabc",
    "negative chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nabc",
    "endless chunk line": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;" + b"a" * 1_000_000,
    "many headers": HEAD + b"X: y\r\n" * 100_000,
    "long header": HEAD + b"X: " + b"y" * 1_000_000,
    "no status": b"hello",
    "odd status": b"HTTP/1.1 99999 x\r\n\r\n",
    "wait for years": b"HTTP/1.1 503 X\r\nRetry-After: 99999999\r\nContent-Length: 0\r\n\r\n",
    "wrong range": b"HTTP/1.1 206 X\r\nContent-Range: bytes 0-99999999999999999999/x\r\nContent-Length: 3\r\n\r\nabc",
    "a reason that a terminal obeys": b"HTTP/1.1 404 \x1b[2J\r\nContent-Length: 0\r\n\r\n",
}


def ask(answer, tmp_path, monkeypatch):
    """Read from a server with this answer; the error, and how often it was asked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WDS_RETRIES", "1")
    (tmp_path / "secret.tar").write_bytes(b"secret")
    asked = []

    def respond(handler):
        asked.append(handler.path)
        text = answer if isinstance(answer, bytes) else answer(handler.server.server_address[1])
        handler.wfile.write(text)
        handler.close_connection = True

    with LoopbackServer(respond) as server:
        with pytest.raises(WebDatasetError) as caught, stores.open_read(server.url("a.tar")) as stream:
            stream.read()
        stores.close_connections()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret.tar"]
    assert "\x1b" not in str(caught.value) and "user:secret" not in str(caught.value)
    assert len(asked) <= 25
    return caught.value


@pytest.mark.parametrize("kind", REDIRECTS)
def test_redirects(kind, tmp_path, monkeypatch):
    def answer(port):
        location = REDIRECTS[kind].format(here=tmp_path, port=port)
        return f"HTTP/1.1 302 X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode("latin-1")

    ask(answer, tmp_path, monkeypatch)


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers(kind, tmp_path, monkeypatch):
    ask(ANSWERS[kind], tmp_path, monkeypatch)
