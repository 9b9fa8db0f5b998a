"""Requests to a viewer, with any header one likes."""

import http.client
import json
import time


class Client:
    """One browser: it exchanges the token for a cookie and keeps it."""

    def __init__(self, server, address=None):
        self.port = server.port
        self.cookie = None
        path = (address or server.new_address()).partition(f":{server.port}")[2]
        status, headers, _ = self.raw("GET", path)
        assert status == 303, status
        self.cookie = headers["set-cookie"].partition(";")[0]

    def raw(self, method, path, headers=None, body=None):
        """Status, headers, body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            sent = {"Host": f"127.0.0.1:{self.port}"} | ({"Cookie": self.cookie} if self.cookie else {})
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            data = b"" if body is None else body
            for name, value in (sent | (headers or {}) | ({"Content-Length": str(len(data))} if data else {})).items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(data)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def get(self, path, status=200, **headers):
        """The JSON of an answer."""
        found, _, body = self.raw("GET", path, headers)
        assert found == status, (found, body[:300])
        return json.loads(body)

    def post(self, path, value, status=200):
        body = json.dumps(value).encode()
        found, _, answer = self.raw("POST", path, {"Content-Type": "application/json"}, body)
        assert found == status, (found, answer[:300])
        return json.loads(answer)

    def job(self, name, text=""):
        """A finished job."""
        job = self.post("/api/jobs", {"name": name, "text": text})
        while (found := self.get(f"/api/jobs/{job['job']}"))["state"] == "running":
            time.sleep(0.01)
        return found

    def ready(self):
        """Waits until all shards are counted."""
        while not (found := self.get("/api/dataset"))["complete"]:
            time.sleep(0.01)
        return found
