"""How fast items come from workers: the share of the loopback's bandwidth, two workers beside one, two jobs beside one.

python benchmarks/serve.py [bandwidth scaling sharing]
python benchmarks/serve.py --simulate      # 10³ workers and 10² trainers, as a discrete-event simulation
"""

import argparse
import heapq
import itertools
import multiprocessing
import random
import socket
import tempfile
import time
from pathlib import Path

import lab
import numpy as np
import psutil
import zmq

import webdataset as wds
from webdataset.index import build_index, save_index
from webdataset.serve import Worker
from webdataset.serve._message_parts import PART
from webdataset.testing import make_shard

BATCH = np.ones((1 if lab.SMALL else 256, 224, 224, 3), np.float16)  # 77 MB
STEPS = 8 if lab.SMALL else 40
COUNTED = 2 if lab.SMALL else 40  # steps of the CPU-bound pipeline that are counted
SPAWN = multiprocessing.get_context("spawn")


def shards(folder, samples):
    url = make_shard(Path(folder) / "a.tar", [{"__key__": f"{n:06d}", "cls": n} for n in range(samples)])
    save_index(build_index(url), url)
    return [url]


def large(samples):
    return BATCH


def work(sample):
    """A millisecond or two of pure Python, which holds the interpreter: only other processes make it faster."""
    total = 0
    for number in range(20_000):
        total += number * number
    return {"total": total % 7, "key": sample["__key__"]}


def make_large(urls):
    return wds.WebDataset(urls).batched(1, collation_fn=large)


def make_work(urls):
    return wds.WebDataset(urls, order="random").map(work).batched(64)


def run_worker(make, urls, pipe, cache):
    worker = Worker(make(urls), cache=cache)
    pipe.send(worker.address)
    worker.serve()


def start(make, urls, count, cache=0):
    workers, addresses = [], []
    for _ in range(count):
        here, there = SPAWN.Pipe()
        workers.append(SPAWN.Process(target=run_worker, args=(make, urls, there, cache), daemon=True))
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
        sender = SPAWN.Process(target=_send_raw, args=(server.getsockname()[1], count + 1))
        sender.start()
        connection, _ = server.accept()
        memory = memoryview(np.ones_like(BATCH)).cast("B")
        with connection:
            for number in range(count + 1):
                if number == 1:
                    began = time.perf_counter()
                done = 0
                while done < len(memory):
                    done += connection.recv_into(memory[done : done + (1 << 18)])
        seconds = time.perf_counter() - began
        sender.join()
    return count * BATCH.nbytes / seconds


def _push(port, count):
    data = BATCH.data.cast("B")
    with zmq.Context() as context, context.socket(zmq.PUSH) as push:
        push.connect(f"tcp://127.0.0.1:{port}")
        for _ in range(count):
            for offset in range(0, len(data), PART):
                push.send(data[offset : offset + PART], copy=False)


def zmq_bandwidth(count=STEPS):
    """A bare pair of ZeroMQ's sockets, with messages of the same size, copied into memory that is used again."""
    memory = memoryview(np.ones_like(BATCH)).cast("B")
    with zmq.Context() as context, context.socket(zmq.PULL) as pull:
        pull.rcvhwm = 4
        port = pull.bind_to_random_port("tcp://127.0.0.1")
        sender = SPAWN.Process(target=_push, args=(port, count + 1))
        sender.start()
        for number in range(count + 1):
            if number == 1:
                began = time.perf_counter()
            for offset in range(0, len(memory), PART):
                pull.recv_into(memory[offset : offset + PART])
        seconds = time.perf_counter() - began
        sender.join()
    return count * BATCH.nbytes / seconds


def served_bandwidth(urls):
    workers, addresses = start(make_large, urls, 1)
    try:
        items = iter(wds.connect(addresses, patience=5))
        for _ in range(4):  # until its memory has been used once
            next(items)
        began, count = time.perf_counter(), 0
        for _ in items:
            count += 1
        return count * BATCH.nbytes / (time.perf_counter() - began)
    finally:
        stop(workers)


def steady_rate(items):
    """Steps per second after the first ones, while all workers have something to do."""
    for _ in range(8):
        next(items)
    began = time.perf_counter()
    for _ in range(COUNTED):
        next(items)
    return COUNTED / (time.perf_counter() - began)


def served_rate(urls, count):
    """Steps per second that so many workers make for one trainer."""
    workers, addresses = start(make_work, urls, count)
    try:
        return steady_rate(iter(wds.connect(addresses, patience=30)))
    finally:
        stop(workers)


def _run_local(urls, pipe):
    pipe.send(steady_rate(iter(make_work(urls))))


def local_rate(urls, count):
    """Steps per second of so many processes that run the same pipeline and send nothing: what the cores can give."""
    pipes, processes = [], []
    for _ in range(count):
        here, there = SPAWN.Pipe()
        processes.append(SPAWN.Process(target=_run_local, args=(urls, there)))
        processes[-1].start()
        pipes.append(here)
    rate = sum(pipe.recv() for pipe in pipes)
    for process in processes:
        process.join()
    return rate


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
    requests at each, and eight times as many open as it knows workers. A worker serves requests in their order. With probability `deaths` a request kills its worker: all
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
            if not free or sum(at[who].values()) + len(made[who]) >= 8 * per_trainer:
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


def measure_bandwidth(folder):
    urls = shards(folder, STEPS)
    rounds = [(raw_bandwidth(), zmq_bandwidth(), served_bandwidth(urls)) for _ in range(lab.ROUNDS)]
    raw, bare, served = (max(column) for column in zip(*rounds, strict=True))
    print(
        f"77 MB batches: TCP {raw / 1e9:.2f} GB/s, bare ZeroMQ {bare / 1e9:.2f} GB/s, served {served / 1e9:.2f} GB/s: "
        f"{served / raw:.0%} of TCP, {served / bare:.0%} of ZeroMQ"
    )


def measure_scaling(folder):
    urls = shards(folder, 64 * (COUNTED + 16))
    rounds = [[rate(urls, n) for rate in (local_rate, served_rate) for n in (1, 2)] for _ in range(lab.ROUNDS)]
    local_one, local_two, one, two = (max(column) for column in zip(*rounds, strict=True))
    print(
        f"CPU-bound: one worker {one:.2f} steps/s, two {two:.2f}: {two / one:.2f} times. "
        f"The same pipeline without serving: {local_two / local_one:.2f} times"
    )


def measure_sharing(folder):
    urls = shards(folder, 64 * (2 if lab.SMALL else 24))
    one, two = (min(worker_seconds(urls, jobs) for _ in range(2)) for jobs in (1, 2))
    print(f"sharing: CPU of a worker with one job {one:.2f} s, with two {two:.2f} s, {two / one:.2f} times")


def simulate_limits():
    print("workers per trainer, share of time that trainers wait")
    for per_trainer in (5, 8, 10, 16, 32, 64):
        print(f"{per_trainer:>4} {simulate(per_trainer=per_trainer, steps=2 if lab.SMALL else 200):>6.1%}", flush=True)


PARTS = {"bandwidth": measure_bandwidth, "scaling": measure_scaling, "sharing": measure_sharing}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--simulate", action="store_true")
    options = parser.parse_args()
    if options.simulate:
        simulate_limits()
        return
    for name in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[name](folder)


if __name__ == "__main__":
    main()
