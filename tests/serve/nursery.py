"""A process that starts workers: it has loaded everything and has one thread, so a fork is quick and safe.

It reads lines of JSON, [address, {options of batches}], and answers with the process number of a new worker.
"""

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path


def main():
    import msgpack  # noqa: F401
    import zmq  # noqa: F401

    from tests.serve.pipelines import batches

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # killed workers leave nothing behind
    children = []
    for line in sys.stdin:
        address, options = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            sys.stdin.close()
            try:
                listen(batches(**options), address).serve()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        children.append(child)
        print(child, flush=True)
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def listen(dataset, address):
    """A worker, as soon as the one before it, which was killed just now, has left its port."""
    import webdataset as wds
    from webdataset.serve import Worker

    while True:
        try:
            return Worker(dataset, address)
        except wds.StoreError:
            time.sleep(0.01)


class Nursery:
    def __init__(self):
        root = Path(__file__).parents[2]
        path = os.pathsep.join([str(root), str(root / "src")])
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.serve.nursery import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            cwd=root,
        )

    def start(self, address, **options):
        self._process.stdin.write(json.dumps([address, options]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
