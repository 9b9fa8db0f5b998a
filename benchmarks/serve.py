"""How fast items come from workers: the share of the loopback's bandwidth, and two workers beside one.

python benchmarks/serve.py
python benchmarks/serve.py --simulate      # 10³ workers and 10² trainers, as a discrete-event simulation
"""

import heapq
import itertools
import multiprocessing
import random
import socket
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

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


def run_worker(make, urls, pipe, cache):
    worker = Worker(make(urls), cache=cache)
    pipe.send(worker.address)
    worker.serve()


def start(make, urls, count, cache=0):
    context = multiprocessing.get_context("spawn")
    workers, addresses = [], []
    for _ in range(count):
        here, there = context.Pipe()
        workers.append(context.Process(target=run_worker, args=(make, urls, there, cache), daemon=True))
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


def raw_bandwidth(count=STEPS, *, fresh=False):
    """One TCP connection between two processes, received into memory that is used again, or into fresh memory."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        context = multiprocessing.get_context("spawn")
        sender = context.Process(target=_send_raw, args=(server.getsockname()[1], count))
        sender.start()
        connection, _ = server.accept()
        memory = memoryview(np.empty_like(BATCH)).cast("B")
        began = time.perf_counter()
        with connection:
            for _ in range(count):
                if fresh:
                    memory = memoryview(np.empty_like(BATCH)).cast("B")
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


def worker_seconds(urls, jobs):
    """The CPU of a worker that so many jobs read the same epoch from, side by side."""
    workers, addresses = start(make_work, urls, 1, cache=1 << 28)
    try:
        process = psutil.Process(workers[0].pid)
        before = sum(process.cpu_times()[:2])
        for _ in zip(*(wds.connect(addresses, patience=30) for _ in range(jobs)), strict=True):
            pass
        return sum(process.cpu_times()[:2]) - before
    finally:
        stop(workers)


def simulate(
    workers=1000, trainers=100, per_trainer=32, steps=200, make=1.0, take=0.2, slow=0.02, deaths=0.001, seed=0
):
    """Trainers that take a step every `take` seconds, workers that make one in about `make`; some are ten times slower.

    Each trainer knows `per_trainer` random workers, the same number of trainers for each of them, and has at most two
    requests at each. A worker serves requests in their order. With probability `deaths` a request kills its worker: all
    that waits there goes elsewhere, and the worker is back after 30 s. Returns the share of time that trainers waited.
    """
    chance = random.Random(seed)
    speed = [10.0 if chance.random() < slow else 1.0 for _ in range(workers)]
    dealt = list(itertools.islice(itertools.cycle(chance.sample(range(workers), workers)), trainers * per_trainer))
    known = [dealt[n * per_trainer : (n + 1) * per_trainer] for n in range(trainers)]
    queues = {worker: [] for worker in range(workers)}
    down_until = dict.fromkeys(range(workers), 0.0)
    at = [dict.fromkeys(mine, 0) for mine in known]
    asked, taken, idle_since = [0] * trainers, [0] * trainers, [0.0] * trainers
    made, again = [set() for _ in range(trainers)], [[] for _ in range(trainers)]
    waited = [0.0] * trainers
    events, order, now = [], itertools.count(), 0.0

    def ask(who):
        while again[who] or asked[who] < steps:
            free = [w for w in known[who] if at[who][w] < 2 and down_until[w] <= now]
            if not free or sum(at[who].values()) + len(made[who]) >= 2 * per_trainer:
                return
            if again[who]:
                step = again[who].pop(0)
            else:
                step, asked[who] = asked[who], asked[who] + 1
            worker = min(free, key=at[who].__getitem__)
            at[who][worker] += 1
            queues[worker].append((who, step))
            if len(queues[worker]) == 1:
                begin(worker)

    def begin(worker):
        span = make * speed[worker] * chance.uniform(0.5, 1.5)
        heapq.heappush(events, (now + span, next(order), worker, None))

    def take_next(who):
        """Take what is next, or begin to wait for it."""
        if taken[who] in made[who]:
            waited[who] += now - idle_since[who]
            idle_since[who] = None
            made[who].discard(taken[who])
            taken[who] += 1
            heapq.heappush(events, (now + take, next(order), None, who))
        ask(who)

    for who in range(trainers):
        take_next(who)
    while min(taken) < steps and events:
        now, _, worker, who = heapq.heappop(events)
        if worker is None:  # a trainer is done with its step
            if taken[who] < steps:
                idle_since[who] = now
                take_next(who)
            continue
        dies = chance.random() < deaths
        ended = queues[worker][:] if dies else queues[worker][:1]
        del queues[worker][: len(ended)]
        if dies:
            down_until[worker] = now + 30.0
        for who, step in ended:
            at[who][worker] -= 1
            (again[who].append if dies else made[who].add)(step)
        if queues[worker]:
            begin(worker)
        for who, _ in ended:
            take_next(who) if idle_since[who] is not None and taken[who] < steps else ask(who)
    return sum(waited) / (sum(waited) + trainers * steps * take)


def main():
    if "--simulate" in sys.argv:
        print("workers per trainer, share of time that trainers wait")
        for per_trainer in (5, 8, 10, 16, 32, 64):
            print(f"{per_trainer:>4} {simulate(per_trainer=per_trainer):>6.1%}", flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        urls = shards(folder, 64 * STEPS)
        rounds = [(raw_bandwidth(), raw_bandwidth(fresh=True), served_bandwidth(urls)) for _ in range(3)]
        raw, fresh, served = (max(column) for column in zip(*rounds, strict=True))
        print(
            f"77 MB batches: TCP into one buffer {raw / 1e9:.2f} GB/s, TCP into new arrays {fresh / 1e9:.2f} GB/s, "
            f"served {served / 1e9:.2f} GB/s: {served / raw:.0%} and {served / fresh:.0%} of them"
        )
        few = shards(tempfile.mkdtemp(dir=folder), 64 * 24)
        one, two = (max(steps_per_second(few, count) for _ in range(2)) for count in (1, 2))
        print(f"CPU-bound: one worker {one:.2f} steps/s, two {two:.2f}, {two / one:.2f} times")
        one, two = (worker_seconds(few, jobs) for jobs in (1, 2))
        print(f"sharing: CPU of a worker with one job {one:.2f} s, with two {two:.2f} s, {two / one:.2f} times")


if __name__ == "__main__":
    main()
