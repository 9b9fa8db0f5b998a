"""How fast items come from workers: the share of the loopback's bandwidth, and two workers beside one.

python benchmarks/serve.py
"""

import multiprocessing
import socket
import tempfile
import time
from pathlib import Path

import numpy as np

import webdataset as wds
from webdataset.index import build_index, save_index
from webdataset.serve import Worker
from webdataset.testing import make_shard

BATCH = np.zeros((256, 224, 224, 3), np.float16)  # 77 MB
STEPS = 40


def shards(folder, samples):
    url = make_shard(Path(folder) / "a.tar", [{"__key__": f"{n:06d}", "cls": n} for n in range(samples)])
    save_index(build_index(url), url)
    return [url]


def large(samples):
    return BATCH


def work(sample):
    """Some milliseconds of pure Python, which holds the interpreter: only other processes make it faster."""
    total = 0
    for number in range(200_000):
        total += number * number
    return {"total": total % 7, "key": sample["__key__"]}


def make_large(urls):
    return wds.WebDataset(urls).batched(64, collation_fn=large)


def make_work(urls):
    return wds.WebDataset(urls, order="random").map(work).batched(64)


def run_worker(make, urls, pipe):
    worker = Worker(make(urls), cache=0)
    pipe.send(worker.address)
    worker.serve()


def start(make, urls, count):
    context = multiprocessing.get_context("spawn")
    workers, addresses = [], []
    for _ in range(count):
        here, there = context.Pipe()
        workers.append(context.Process(target=run_worker, args=(make, urls, there), daemon=True))
        workers[-1].start()
        addresses.append(here.recv())
    return workers, addresses


def stop(workers):
    for worker in workers:
        worker.kill()
        worker.join()


def _send_raw(port, count):
    with socket.create_connection(("127.0.0.1", port)) as sender:
        for _ in range(count):
            sender.sendall(BATCH.data.cast("B"))


def raw_bandwidth(count=STEPS):
    """One TCP connection between two processes, received into memory that is used again."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        context = multiprocessing.get_context("spawn")
        sender = context.Process(target=_send_raw, args=(server.getsockname()[1], count))
        sender.start()
        connection, _ = server.accept()
        memory = memoryview(np.empty_like(BATCH)).cast("B")
        began = time.perf_counter()
        with connection:
            for _ in range(count):
                done = 0
                while done < len(memory):
                    done += connection.recv_into(memory[done : done + (1 << 20)])
        seconds = time.perf_counter() - began
        sender.join()
    return count * BATCH.nbytes / seconds


def served_bandwidth(urls):
    workers, addresses = start(make_large, urls, 1)
    try:
        items = iter(wds.connect(addresses, patience=5))
        next(items)
        began, count = time.perf_counter(), 0
        for _ in items:
            count += 1
        return count * BATCH.nbytes / (time.perf_counter() - began)
    finally:
        stop(workers)


def steps_per_second(urls, count):
    workers, addresses = start(make_work, urls, count)
    try:
        items = iter(wds.connect(addresses, patience=30))
        next(items)
        began, steps = time.perf_counter(), 0
        for _ in items:
            steps += 1
        return steps / (time.perf_counter() - began)
    finally:
        stop(workers)


def main():
    with tempfile.TemporaryDirectory() as folder:
        urls = shards(folder, 64 * STEPS)
        rounds = [(raw_bandwidth(), served_bandwidth(urls)) for _ in range(3)]
        raw, served = (max(column) for column in zip(*rounds, strict=True))
        print(f"77 MB batches: TCP {raw / 1e9:.2f} GB/s, served {served / 1e9:.2f} GB/s, {served / raw:.0%}")
        few = shards(tempfile.mkdtemp(dir=folder), 64 * 24)
        one, two = (max(steps_per_second(few, count) for _ in range(2)) for count in (1, 2))
        print(f"CPU-bound: one worker {one:.2f} steps/s, two {two:.2f}, {two / one:.2f} times")


if __name__ == "__main__":
    main()
