"""How quickly does `wds view` show a dataset, how much does it read, how much memory does it take?

    python benchmarks/view.py [--samples 2000] [--latency 50] [first remote memory]

* first: seconds from the start of the process `wds view` to the first 24 thumbnails of local shards with an index;
* remote: the same of a shard on an HTTP server that waits `--latency` milliseconds before each answer, and how many bytes
  that server sent for each byte of the fields that are shown;
* memory: the resident set of the process with a description of 10,000,000 samples, after jumping to 100 places.

Thumbnails are requested as the page does: one request for the cells, then the pictures, six at a time. Prints a JSON object.
"""

import argparse
import http.client
import http.server
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lab
import numpy as np
import psutil
from PIL import Image

from webdataset.index import Description, ShardEntry, build_index, save_index, write_description
from webdataset.testing import make_shard

SHOWN = 24


class Viewer:
    """A process `wds view` and one browser."""

    def __init__(self, shards):
        self.began = time.perf_counter()
        command = [sys.executable, "-m", "webdataset", "view", "--no-browser", "--json", shards]
        environment = {**os.environ, "PYTHONPATH": str(lab.ROOT / "src")}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        address = json.loads(self.process.stdout.readline())["address"]
        self.port = int(address.split(":")[2].split("/")[0])
        self.cookie = ""
        _, headers = self.get(address.partition(str(self.port))[2])
        self.cookie = headers["set-cookie"].partition(";")[0]

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", path, headers={"Cookie": self.cookie})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status not in {200, 303}:
            raise SystemExit(f"{path}: {answer.status} {body[:500]}")
        return body, {name.lower(): value for name, value in answer.getheaders()}

    def first_page(self):
        """Seconds until the thumbnails of the first page are there, and the bytes of the fields that they show."""
        while not (cells := json.loads(self.get(f"/api/cells?count={SHOWN}")[0])["cells"]):
            time.sleep(0.02)
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda cell: self.get(f"/api/picture/{cell['number']}/jpg?size=256"), cells))
        seconds = time.perf_counter() - self.began
        times = psutil.Process(self.process.pid).cpu_times()
        self.cpu_seconds = round(times.user + times.system, 3)  # what a busy machine does not stretch
        return seconds, sum(field["size"] for cell in cells for field in cell["fields"])

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


def photos(path, count):
    rng = np.random.default_rng(0)
    some = []
    for _ in range(16):
        stream = io.BytesIO()
        pixels = Image.fromarray(rng.integers(0, 255, (60, 80, 3), np.uint8)).resize((500, 375))
        pixels.save(stream, "JPEG", quality=90)
        some.append(stream.getvalue())
    shard = make_shard(path, ({"__key__": f"{n:06d}", "jpg": some[n % 16], "cls": n % 10} for n in range(count)))
    save_index(build_index(shard), shard)
    return shard


def first(folder, options):
    viewer = Viewer(photos(folder / "a.tar", options.samples))
    try:
        seconds, _ = viewer.first_page()
        return {"seconds": round(seconds, 3), "cpu_seconds": viewer.cpu_seconds}
    finally:
        viewer.close()


def remote(folder, options):
    photos(folder / "a.tar", options.samples)
    sent = {"tar": 0, "idx": 0}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_HEAD(self):
            self.answer(False)

        def do_GET(self):
            self.answer(True)

        def answer(self, body):
            time.sleep(options.latency / 1000)
            path = folder / self.path.lstrip("/")
            if not path.is_file():
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            size, asked = path.stat().st_size, self.headers.get("Range")
            start, stop = 0, size
            if asked:
                low, _, high = asked.removeprefix("bytes=").partition("-")
                start, stop = int(low), min(int(high) + 1 if high else stop, stop)
            self.send_response(206 if asked else 200)
            self.send_header("Content-Length", str(stop - start))
            self.send_header("ETag", f'"{path.stat().st_mtime_ns}"')
            self.send_header("Accept-Ranges", "bytes")
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
            self.end_headers()
            if body:
                with path.open("rb") as file:
                    file.seek(start)
                    self.wfile.write(file.read(stop - start))
                sent[path.suffix[1:]] += stop - start

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    viewer = Viewer(f"http://127.0.0.1:{server.server_port}/a.tar")
    try:
        seconds, shown = viewer.first_page()
    finally:
        viewer.close()
        server.shutdown()
        server.server_close()
    return {
        "seconds": round(seconds, 3),
        "bytes_per_shown_byte": round(sent["tar"] / shown, 3),
        "index_bytes": sent["idx"],
    }


def memory(folder, options):
    photos(folder / "a.tar", 1000)
    (folder / "all.json").write_bytes(write_description(Description([ShardEntry("a.tar", 1000)] * 10_000)))
    viewer = Viewer(str(folder / "all.json"))
    try:
        viewer.first_page()
        for place in random.Random(0).sample(range(10_000_000 - SHOWN), 100):
            viewer.get(f"/api/cells?start={place}&count={SHOWN}")
            viewer.get(f"/api/picture/{place}/jpg?size=256")
        return {"resident_mb": round(psutil.Process(viewer.process.pid).memory_info().rss / 1e6, 1)}
    finally:
        viewer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", default=["first", "remote", "memory"])
    parser.add_argument("--samples", type=int, default=100 if lab.SMALL else 2000)
    parser.add_argument("--latency", type=float, default=50)
    options = parser.parse_args()
    found = {}
    for name in options.which:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = globals()[name](Path(folder), options)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
