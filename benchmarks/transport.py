"""How fast shards come over HTTP, through latency, and out of the cache, in one run.

    python benchmarks/transport.py [--rounds 3] [loopback distance cache]
    python benchmarks/transport.py profile      # of one pass over loopback, by function

Three questions, each answered by ratios (the best of the rounds, taken in turns, so that a busy machine disturbs all
alike), by the clock and in processor time per byte, which hardly depends on what else the machine does:

* loopback: ours against the public library's `curl` path, against a plain urllib3 loop that only downloads (which
  says how much there is to gain), and that loop against a bare socket that receives into one buffer;
* distance: a server that adds 50 ms to every connection and every request and sends 40 MB/s per connection; what a
  read-ahead of 4 makes of it against what four such connections allow, and how soon the first sample is there;
* cache: the second epoch out of a cache directory against the same shards as local files; the first, shuffled by an
  index, against streaming the same shards into a cache.

Servers run as processes of their own. Prints one JSON object, then a table.
"""

import argparse
import cProfile
import io
import json
import os
import pstats
import resource
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path

import lab

SHARDS, SAMPLES, SIZE = 8, 3 if lab.SMALL else 300, 100_000
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


def views(urls):
    import webdataset as wds

    return warm(lambda urls: consume(wds.WebDataset(urls, shardshuffle=False, copy=False)), urls)


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


def bare(urls):
    return warm(receive, urls)


def receive(urls):
    """One connection, one buffer."""
    address, buffer = urls[0].split("/")[2], bytearray(1 << 20)
    host, _, port = address.partition(":")
    began, spent, total = time.perf_counter(), processor(), 0
    with socket.create_connection((host, int(port))) as connection:
        for url in urls:
            connection.sendall(f"GET /{url.rpartition('/')[2]} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
            head, _, body = connection.recv(1 << 16).partition(b"\r\n\r\n")
            size, got = int(head.rpartition(b": ")[2]), len(body)
            while got < size:
                got += connection.recv_into(buffer)
            total += got
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


PARTS = {
    function.__name__: function for function in (ours, views, plain, bare, ahead, cached, local, streamed, planned)
}


def measure(name, urls, python=sys.executable):
    """Run one of the functions above in a process of its own."""
    env = {**os.environ, "PYTHONPATH": str(lab.ROOT / "src") if python == sys.executable else ""}
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
    for result in found.values():
        samples = result["bytes"] / SIZE
        result |= {
            "MB/s": result["bytes"] / result["seconds"] / 1e6,
            "cpu_us_per_sample": result["cpu"] / samples * 1e6,
        }
    return found


def against(found, one, other):
    """How many times the rate, by the clock and by processor time."""
    return (
        found[one]["MB/s"] / found[other]["MB/s"],
        found[other]["cpu_us_per_sample"] / found[one]["cpu_us_per_sample"],
    )


def loopback(paths, rounds):
    with Server(paths[0].parent) as server:
        urls = server.urls(paths)
        runs = {name: lambda name=name: measure(name, urls) for name in ("ours", "views", "plain", "bare")}
        try:
            python = lab.python_of("webdataset")
            runs["public"] = lambda: measure("ours", urls, python)  # the interpreter decides whose library
        except lab.Skip as reason:
            print(f"# the public library is left out: {reason}", file=sys.stderr)
        found = best(rounds, runs)
    rows = []
    if "public" in found:
        rows += [
            ("against the public library", *against(found, "ours", "public"), ">= 5"),
            ("a plain urllib3 loop against the public library", *against(found, "plain", "public"), ""),
        ]
    rows += [
        ("against a plain urllib3 loop", *against(found, "ours", "plain"), ">= 0.8"),
        ("with copy=False, against the same", *against(found, "views", "plain"), ">= 0.8"),
        ("a bare socket against a plain urllib3 loop", *against(found, "bare", "plain"), ""),
    ]
    return found, rows


def distance(paths, rounds):
    with Server(paths[0].parent, LATENCY, BANDWIDTH) as server:
        found = best(min(rounds, 2), {"ahead": lambda: measure("ahead", server.urls(paths))})
    far = found["ahead"]
    # All connections are busy all the time but for one handshake, and one request for each shard.
    possible = far["bytes"] / (LATENCY + SHARDS / DEPTH * (LATENCY + far["bytes"] / SHARDS / BANDWIDTH)) / 1e6
    return found, [
        ("against what 4 connections of 40 MB/s allow", far["MB/s"] / possible, None, ">= 0.9"),
        ("round trips to the first sample", far["first"] / LATENCY, None, "<= 3"),
    ]


def cache(paths, rounds):
    with Server(paths[0].parent) as server:
        urls = server.urls(paths)
        second = best(rounds, {"cached": lambda: measure("cached", urls), "local": lambda: measure("local", paths)})
        first = best(rounds, {name: lambda name=name: measure(name, urls) for name in ("planned", "streamed")})
    return second | first, [
        ("second epoch, against local files", *against(second, "cached", "local"), ">= 0.9"),
        ("first epoch shuffled by an index, in times of streaming", *against(first, "streamed", "planned"), "<= 1.2"),
    ]


def profile(paths, rounds):
    import webdataset as wds

    with Server(paths[0].parent) as server, cProfile.Profile() as profiler:
        consume(wds.WebDataset(server.urls(paths), shardshuffle=False))
    pstats.Stats(profiler).sort_stats("tottime").print_stats(20)
    return {}, []


QUESTIONS = {function.__name__: function for function in (loopback, distance, cache, profile)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "questions", nargs="*", default=["loopback", "distance", "cache"], metavar="QUESTION", help=", ".join(QUESTIONS)
    )
    parser.add_argument("--rounds", type=int, default=lab.ROUNDS)
    options = parser.parse_args()
    paths, results, lines = generate(lab.DATA / "transport"), {}, []
    for question in options.questions:
        results[question], rows = QUESTIONS[question](paths, options.rounds)
        for what, clock, cpu, wanted in rows:
            lines.append(
                f"{question + ', ' + what:72}{clock:8.2f}{'' if cpu is None else format(cpu, '.2f'):>8}   {wanted}"
            )
    print(json.dumps(results))
    print(f"{'':72}{'clock':>8}{'CPU':>8}   wanted", *lines, sep="\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
    elif sys.argv[1:2] and sys.argv[1] in PARTS:
        print(json.dumps(PARTS[sys.argv[1]](sys.argv[2:])))
    else:
        main()
