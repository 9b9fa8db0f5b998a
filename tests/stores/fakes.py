"""Stand-ins for AIStore and the Hugging Face hub; the vendors' own libraries are asked whether they are good enough."""

import base64
import hashlib
import json
from urllib.parse import parse_qs, unquote, urlsplit

from webdataset.testing import LoopbackServer
from webdataset.testing._web_server import wanted_range


def answer(handler, status=200, body=b"", **headers):
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)


def body_of(handler):
    return handler.rfile.read(int(handler.headers.get("Content-Length") or 0))


def send_object(handler, data, **headers):
    etag = f'"{hashlib.md5(data).hexdigest()}"'
    span = wanted_range(handler, len(data))
    if span and span[0] >= len(data):
        answer(handler, 416, Content_Range=f"bytes */{len(data)}")
    elif span:
        start, stop = span
        part = f"bytes {start}-{stop - 1}/{len(data)}"
        answer(handler, 206, data[start:stop], Content_Range=part, ETag=etag, **headers)
    else:
        answer(handler, 200, data, ETag=etag, **headers)


class FakeAis:
    """A proxy that only redirects, and a target that has the objects: two ports, as in a real cluster."""

    def __init__(self, page=1000, token=None):
        self.objects, self.page, self.token, self.seen = {}, page, token, []

    def __enter__(self):
        self.target = LoopbackServer(self.serve_target).__enter__()
        self.proxy = LoopbackServer(self.serve_proxy).__enter__()
        self.endpoint = self.proxy.url("").rstrip("/")
        return self

    def __exit__(self, *_):
        self.proxy.__exit__()
        self.target.__exit__()

    def serve_proxy(self, handler):
        self.seen.append((handler.command, handler.path))
        parts = urlsplit(handler.path)
        if self.token and handler.headers.get("Authorization") != f"Bearer {self.token}":
            body_of(handler)
            answer(handler, 401, b'{"message": "no token", "status": 401}')
        elif parts.path.startswith("/v1/objects/"):
            body_of(handler)  # a real proxy answers without reading; over loopback that would reset the sender
            answer(handler, 307, Location=self.target.url(handler.path.lstrip("/")))
        elif parts.path.startswith("/v1/buckets/"):
            self.list(handler, unquote(parts.path.split("/")[3]))
        elif parts.path == "/v1/health":
            answer(handler)
        else:
            answer(handler, 404, b'{"message": "no such path", "status": 404}')

    def list(self, handler, bucket):
        value = json.loads(body_of(handler) or b"{}").get("value") or {}
        names = sorted(
            name for where, name in self.objects if where == bucket and name.startswith(value.get("prefix") or "")
        )
        after = value.get("continuation_token") or ""
        names = [name for name in names if name > after]
        more = names[self.page - 1] if len(names) > self.page else ""
        names = names[: self.page]
        if "msgpack" in handler.headers.get("Accept", ""):
            import msgpack

            entries = [{"n": name, "s": len(self.objects[bucket, name])} for name in names]
            body = msgpack.packb({"UUID": "u", "ContinuationToken": more, "Flags": 0, "Entries": entries})
            answer(handler, 200, body, Content_Type="application/msgpack")
        else:
            entries = [{"name": name, "size": len(self.objects[bucket, name])} for name in names]
            body = json.dumps({"uuid": "u", "continuation_token": more, "flags": 0, "entries": entries}).encode()
            answer(handler, 200, body, Content_Type="application/json")

    def serve_target(self, handler):
        parts = urlsplit(handler.path)
        _, _, _, bucket, name = unquote(parts.path).split("/", 4)
        if handler.command == "PUT":
            self.objects[bucket, name] = body_of(handler)
            answer(handler)
            return
        data = self.objects.get((bucket, name))
        query = parse_qs(parts.query)
        provider = query["provider"][0]
        if data is None:
            message = f"object {provider}://{bucket}/{name} does not exist"
            answer(handler, 404, json.dumps({"message": message, "status": 404}).encode())
            return
        if "etl_name" in query:
            data = data.upper()
        send_object(handler, data, ais_version="1", ais_present="true")


class FakeHub:
    """A hub that redirects downloads to a host of its own, which must never see the token."""

    commit = "0123456789abcdef0123456789abcdef01234567"

    def __init__(self, page=2):
        self.files, self.page, self.leaked, self.tokens, self.served = {}, page, [], [], []

    def __enter__(self):
        self.cdn = LoopbackServer(self.serve_cdn).__enter__()
        self.hub = LoopbackServer(self.serve_hub).__enter__()
        # Another host name for the same loopback: a redirect to another host must not carry the token.
        self.cdn_url = self.cdn.url("").replace("127.0.0.1", "localhost").rstrip("/")
        self.endpoint = self.hub.url("").rstrip("/")
        return self

    def __exit__(self, *_):
        self.hub.__exit__()
        self.cdn.__exit__()

    def serve_cdn(self, handler):
        if handler.headers.get("Authorization"):
            self.leaked.append(handler.path)
        send_object(handler, self.served[int(handler.path[1:])])

    def serve_hub(self, handler):
        self.tokens.append(handler.headers.get("Authorization"))
        path = urlsplit(handler.path).path
        if "/resolve/" in path:
            self.resolve(handler, path)
        elif "/tree" in path and path.startswith("/api/"):
            self.tree(handler, path)
        elif "/preupload/" in path:
            asked = json.loads(body_of(handler))["files"]
            files = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in asked]
            answer(handler, 200, json.dumps({"files": files}).encode(), Content_Type="application/json")
        elif "/commit/" in path:
            self.commit_files(handler, path)
        else:
            body_of(handler)
            answer(handler, 404, b"{}", X_Error_Code="EntryNotFound")

    def resolve(self, handler, path):
        repository, _, rest = path.lstrip("/").partition("/resolve/")
        if repository.startswith("buckets/"):
            revision, name = "main", unquote(rest)
        else:
            revision, _, name = rest.partition("/")
            if not repository.startswith(("datasets/", "spaces/")):
                repository = f"models/{repository}"
        key = (repository, unquote(revision), unquote(name))
        data = self.files.get(key)
        if data is None:
            answer(handler, 404, X_Error_Code="EntryNotFound", X_Error_Message="Entry not found")
            return
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        self.served.append(data)
        location = f"{self.cdn_url}/{len(self.served) - 1}"
        answer(
            handler,
            302,
            Location=location,
            X_Repo_Commit=self.commit,
            X_Linked_Size=str(len(data)),
            X_Linked_ETag=etag,
            ETag=etag,
        )

    def tree(self, handler, path):
        repository, _, rest = path.removeprefix("/api/").partition("/tree")
        rest = rest.lstrip("/")
        revision, folder = (
            ("main", unquote(rest))
            if repository.startswith("buckets/")
            else (unquote(rest.partition("/")[0]), unquote(rest.partition("/")[2]))
        )
        names = sorted(n for r, v, n in self.files if (r, v) == (repository, revision) and n.startswith(folder))
        at = int(parse_qs(urlsplit(handler.path).query).get("cursor", ["0"])[0])
        items = [
            {"type": "file", "path": n, "size": len(self.files[repository, revision, n]), "oid": "0" * 40}
            for n in names[at : at + self.page]
        ]
        headers = {"Content_Type": "application/json"}
        if at + self.page < len(names):
            url = f"{self.endpoint}{path}?recursive=true&cursor={at + self.page}"
            headers["Link"] = f'<{url}>; rel="next"'
        answer(handler, 200, json.dumps(items).encode(), **headers)

    def commit_files(self, handler, path):
        repository, _, revision = path.removeprefix("/api/").partition("/commit/")
        for line in body_of(handler).splitlines():
            item = json.loads(line)
            if item["key"] == "file":
                value = item["value"]
                self.files[repository, unquote(revision), value["path"]] = base64.b64decode(value["content"])
        done = {
            "commitUrl": f"{self.endpoint}/{repository}/commit/{self.commit}",
            "commitOid": self.commit,
            "success": True,
        }
        answer(handler, 200, json.dumps(done).encode(), Content_Type="application/json")
