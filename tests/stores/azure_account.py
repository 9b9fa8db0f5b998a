"""The account of Azure's emulator, and requests to it that do not go through the code under test."""

import base64
import hashlib
import hmac
import urllib.error
import urllib.request
from email.utils import formatdate
from urllib.parse import quote

ACCOUNT = "devstoreaccount1"
# The emulator's documentation publishes it.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def use(port, monkeypatch):
    """Let the stores find the emulator, with a container called "shards"."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"http://127.0.0.1:{port}/{ACCOUNT}")
    try:
        ask(port, "PUT", "shards", restype="container")
    except urllib.error.HTTPError as error:
        error.close()
        assert error.code == 409, error  # it is there already


def put(port, key, data):
    """Write an object."""
    ask(port, "PUT", f"shards/{quote(key)}", data, {"x-ms-blob-type": "BlockBlob"})


def get(port, key):
    """Read an object."""
    return ask(port, "GET", f"shards/{quote(key)}")


def ask(port, method, path, data=b"", headers=(), **query):
    """One signed request; the body of the answer."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06", **dict(headers)}
    kind = "application/octet-stream" if method == "PUT" else ""
    signed = [method, "", "", str(len(data) or ""), "", kind, *[""] * 6]
    signed += [f"{name}:{headers[name]}" for name in sorted(headers)]
    signed += [f"/{ACCOUNT}/{ACCOUNT}/{path}", *(f"{name}:{value}" for name, value in sorted(query.items()))]
    signature = hmac.new(base64.b64decode(KEY), "\n".join(signed).encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}"
    if kind:
        headers["Content-Type"] = kind
    text = "&".join(f"{name}={value}" for name, value in query.items())
    url = f"http://127.0.0.1:{port}/{ACCOUNT}/{path}{'?' if text else ''}{text}"
    request = urllib.request.Request(url, data if method == "PUT" else None, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return answer.read()
