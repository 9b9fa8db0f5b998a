"""The other side of test_kill.py: a process without threads that forks readers of one cache and kills them at random.

Usage: killing.py FOLDER LIMIT KILLS SEED URL... ; prints one line of JSON. A URL is followed by #CRC.
"""

import json
import os
import random
import signal
import socket
import sys
import time
import traceback
import zlib

import urllib3.connection

from webdataset.cache import ShardCache
from webdataset.errors import StoreError

READERS = 8

# What lies unread in a killed reader's kernel is lost to everybody: small windows keep that small, on any machine.
urllib3.connection.HTTPConnection.default_socket_options += [(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)]


def reader(folder, limit, wanted, seed, endless):
    """Read shards in a random order and leave with 7 if one is not what it should be."""
    rng, cache = random.Random(seed), ShardCache(folder, limit=limit)
    while True:
        for url, checksum in rng.sample(wanted, len(wanted)):
            with cache.open(url) as stream:
                found = 0
                while piece := stream.read(rng.choice([10_000, 200_000, 1 << 20])):
                    found = zlib.crc32(piece, found)
            if found != checksum:
                os._exit(7)
        if not endless:
            os._exit(0)


def start(*args):
    child = os.fork()
    if child == 0:
        try:
            reader(*args)
        except BaseException as error:
            traceback.print_exception(error)
            sys.stderr.flush()
            os._exit(8 if isinstance(error, StoreError) else 9)
    return child


def size(folder):
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            if not name.endswith((".entry", ".claim", ".new", "locks")):
                try:
                    total += os.stat(os.path.join(base, name)).st_size
                except FileNotFoundError:
                    pass
    return total


def main(folder, limit, kills, seed, *urls):
    limit, kills, rng = int(limit), int(kills), random.Random(int(seed))
    wanted = [(url.split("#")[0], int(url.split("#")[1])) for url in urls]
    children, highest, bad, killed = [], 0, [], 0
    numbers = iter(range(10**9))
    while killed < kills:
        while len(children) < READERS:
            children.append(start(folder, limit, wanted, next(numbers), True))
        deadline = time.monotonic() + rng.uniform(0.002, 0.03)
        while time.monotonic() < deadline:
            highest = max(highest, size(folder)) if limit > 0 else 0
            time.sleep(0.001)
        victim = children.pop(rng.randrange(len(children)))
        os.kill(victim, signal.SIGKILL)
        killed += 1
        status = os.waitpid(victim, 0)[1]
        if os.WIFEXITED(status):  # it ended before it could be killed: only an error makes it
            bad.append(os.WEXITSTATUS(status))
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    last = start(folder, limit, wanted, 0, False)  # the next start
    status = os.waitpid(last, 0)[1]
    print(json.dumps({"bad": bad, "highest": highest, "last": os.waitstatus_to_exitcode(status)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
