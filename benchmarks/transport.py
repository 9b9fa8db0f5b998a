"""How fast shards come over HTTP, through latency, and out of the cache, in one run.

    python benchmarks/transport.py --public-python ../venv-public/bin/python

Four questions, each answered by a ratio (the best of the rounds, taken in turns, so that a busy machine disturbs all
alike):

* loopback: ours against the public library's `curl` path, and against a plain urllib3 loop that only downloads (which
  says how much there is to gain);
* distance: a server that adds 50 ms to every connection and every request and sends 40 MB/s per connection; what a
  read-ahead of 4 makes of it against what four such connections allow, and how soon the first sample is there;
* cache: the second epoch out of a cache directory against the same shards as local files; the first, shuffled by an
  index, against streaming the same shards into a cache.

Servers run as processes of their own. Prints one JSON object, then a table.
"""

import argparse
import io
import json
import os
import resource
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARDS, SAMPLES, SIZE = 8, 300, 100_000
LATENCY, BANDWIDTH, DEPTH = 0.05, 40e6, 4


def generate(folder):
    """Shards of 300 samples of 100 kB: 30 MB each."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(SHARDS):
        path = folder / f"{shard:02d}.tar"
        if path.exists():
            continue
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for n in range(SAMPLES):
                info = tarfile.TarInfo(f"{shard:02d}{n:05d}.bin")
                info.size = SIZE
                tar.addfile(info, io.BytesIO(os.urandom(SIZE)))
    return sorted(folder.glob("*.tar"))


def serve(folder, latency, bandwidth):
    """A small HTTP/1.1 server: a thread per connection, `sendfile`, and the distance that was asked for."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=converse, args=(connection, Path(folder), latency, bandwidth), daemon=True).start()


def converse(connection, folder, latency, bandwidth):
    time.sleep(latency)  # the way of the handshake
    with connection, connection.makefile("rb") as requests:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while line := requests.readline():
            headers = {}
            while (field := requests.readline().strip()) and b":" in field:
                name, _, value = field.partition(b":")
                headers[name.lower()] = value.strip()
            time.sleep(latency)
            verb, name = line.split()[:2]
            answer(connection, folder / name.decode().lstrip("/"), headers, bandwidth, body=verb != b"HEAD")


def answer(connection, path, headers, bandwidth, *, body):
    size = path.stat().st_size
    start = int(headers[b"range"].split(b"=")[1].split(b"-")[0]) if b"range" in headers else 0
    status = (
        f"206 Partial Content\r\nContent-Range: bytes {start}-{size - 1}/{size}" if b"range" in headers else "200 OK"
    )
    head = f'HTTP/1.1 {status}\r\nETag: "{path.name}-{size}"\r\nContent-Length: {size - start}\r\n\r\n'
    connection.sendall(head.encode())
    if not body:
        return
    began, sent = time.perf_counter(), 0
    with path.open("rb") as file:
        while start + sent < size:
            # All at once where nothing is to be held back: the calls of a slow server would be what is measured.
            sent += os.sendfile(connection.fileno(), file.fileno(), start + sent, 256 << 10 if bandwidth else size)
            if bandwidth:
                time.sleep(max(0.0, sent / bandwidth - (time.perf_counter() - began)))


class Server:
    def __init__(self, folder, latency=0.0, bandwidth=0.0):
        self.command = [sys.executable, __file__, "serve", str(folder), str(latency), str(bandwidth)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()

    def urls(self, paths):
        return [f"http://127.0.0.1:{self.port}/{path.name}" for path in paths]


def consume(samples):
    """(samples, bytes, seconds to the first, seconds to the last)."""
    began, spent = time.perf_counter(), processor()
    first, count, total = None, 0, 0
    for sample in samples:
        first = first or time.perf_counter() - began
        count += 1
        total += len(sample["bin"])
    seconds = time.perf_counter() - began
    return {"count": count, "bytes": total, "first": first, "seconds": seconds, "cpu": processor() - spent}


def processor():
    """Seconds of processor time, with those of children that have ended (curl)."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def warm(run, urls):
    """Modules loaded and files in memory first, by one shard; then the fastest of three."""
    run(urls[:1])
    return min((run(urls) for _ in range(3)), key=lambda result: result["seconds"])


def ours(urls):
    import webdataset as wds

    return warm(lambda urls: consume(wds.WebDataset(urls, shardshuffle=False)), urls)


public = ours  # the same program; the interpreter decides whose library it imports


def plain(urls):
    return warm(download, urls)


def download(urls):
    import urllib3

    pool, began, spent, total = urllib3.PoolManager(), time.perf_counter(), processor(), 0
    for url in urls:
        response = pool.request("GET", url, preload_content=False)
        while piece := response.read(1 << 20):
            total += len(piece)
        response.release_conn()
    return {"bytes": total, "seconds": time.perf_counter() - began, "cpu": processor() - spent}


def ahead(urls):
    from webdataset import stores
    from webdataset.cache import OpenAhead
    from webdataset.samples import ReadSamples

    def run(urls):
        stores.close_connections()  # the handshake is part of the distance
        return consume(ReadSamples()(OpenAhead(depth=DEPTH)({"url": url} for url in urls)))

    return warm(run, urls)


def cached(urls):
    """The second epoch."""
    import webdataset as wds

    with tempfile.TemporaryDirectory() as folder:
        dataset = wds.WebDataset(urls, shardshuffle=False, cache_dir=folder)
        consume(dataset)
        return min((consume(dataset) for _ in range(3)), key=lambda result: result["seconds"])


def streamed(urls):
    """The first epoch, in the order of storage, while an empty cache is filled."""
    import webdataset as wds

    def run():
        with tempfile.TemporaryDirectory() as folder:
            return consume(wds.WebDataset(urls, shardshuffle=False, index=False, cache_dir=folder))

    return min((run() for _ in range(3)), key=lambda result: result["seconds"])


def planned(urls):
    """The same, all samples shuffled by an index."""
    import webdataset as wds

    def run(index):
        with tempfile.TemporaryDirectory() as folder:
            return consume(wds.WebDataset(urls, shardshuffle=True, index=index, cache_dir=folder).shuffle(1000))

    with tempfile.TemporaryDirectory() as index:
        run(index)  # builds the index
        return min((run(index) for _ in range(3)), key=lambda result: result["seconds"])


def local(paths):
    import webdataset as wds

    dataset = wds.WebDataset(paths, shardshuffle=False)
    consume(dataset)
    return min((consume(dataset) for _ in range(3)), key=lambda result: result["seconds"])


def measure(name, urls, python=sys.executable):
    """Run one of the functions above in a process of its own."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src") if python == sys.executable else ""}
    done = subprocess.run([python, __file__, name, *map(str, urls)], capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def best(rounds, measurements):
    """Take turns; the fastest round of each counts."""
    found = {}
    for _ in range(rounds):
        for name, run in measurements.items():
            result = run()
            least = min(result["cpu"], found.get(name, result)["cpu"])
            if name not in found or result["seconds"] < found[name]["seconds"]:
                found[name] = result
            found[name]["cpu"] = least
    return {
        name: {**result, "rate": round(result["bytes"] / result["seconds"] / 1e6)} for name, result in found.items()
    }


def speed(results, name, other):
    """How much faster, and what to expect of it: nothing."""
    return results[name]["rate"] / results[other]["rate"], ""


def compared(results, other, called, wanted):
    """By the clock, and in processor time per byte, which hardly depends on what else the machine does."""
    mine, theirs = results["ours"], results[other]
    spent = (theirs["cpu"] / theirs["bytes"]) / (mine["cpu"] / mine["bytes"])
    yield f"loopback, against {called}", mine["rate"] / theirs["rate"], wanted
    yield "  the same in processor time", spent, wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--public-python", help="an interpreter that has the public library")
    parser.add_argument("--data", default=str(ROOT / "bench-data" / "transport"))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    paths = generate(Path(options.data))
    table = []
    with Server(options.data) as server:
        urls = server.urls(paths)
        runs = {
            "ours": lambda: measure("ours", urls),
            "urllib3": lambda: measure("plain", urls),
        }
        if options.public_python:
            runs["public"] = lambda: measure("public", urls, options.public_python)
        loopback = best(options.rounds, runs)
        second = best(
            options.rounds, {"cached": lambda: measure("cached", urls), "local": lambda: measure("local", paths)}
        )
        first = best(
            options.rounds, {"planned": lambda: measure("planned", urls), "streamed": lambda: measure("streamed", urls)}
        )
    with Server(options.data, LATENCY, BANDWIDTH) as server:
        far = best(2, {"ahead": lambda: measure("ahead", server.urls(paths))})
    # All connections are busy all the time but for one handshake, and one request for each shard.
    size = far["ahead"]["bytes"] / SHARDS
    possible = far["ahead"]["bytes"] / (LATENCY + SHARDS / DEPTH * (LATENCY + size / BANDWIDTH)) / 1e6
    if options.public_python:
        table += compared(loopback, "public", "the public library", ">= 5")
        table.append(
            ("loopback, a plain urllib3 loop against the public library", *speed(loopback, "urllib3", "public"))
        )
    table += [
        *compared(loopback, "urllib3", "a plain urllib3 loop", ">= 0.8"),
        ("distance, against what 4 connections of 40 MB/s allow", far["ahead"]["rate"] / possible, ">= 0.9"),
        ("distance, round trips to the first sample", far["ahead"]["first"] / LATENCY, "<= 3"),
        (
            "second epoch from the cache, against local files",
            second["cached"]["rate"] / second["local"]["rate"],
            ">= 0.9",
        ),
        (
            "first epoch into the cache, shuffled by an index, in times of streaming",
            first["planned"]["seconds"] / first["streamed"]["seconds"],
            "<= 1.2",
        ),
    ]
    print(json.dumps({"loopback": loopback, "distance": far, "second epoch": second, "first epoch": first}))
    for what, value, wanted in table:
        print(f"{what:72} {value:8.2f}   {wanted}")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "serve":
        serve(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
    elif len(sys.argv) > 1 and sys.argv[1] in {
        "ours",
        "public",
        "plain",
        "ahead",
        "cached",
        "local",
        "streamed",
        "planned",
    }:
        print(json.dumps(globals()[sys.argv[1]](sys.argv[2:])))
    else:
        main()
