"""A program that maps shards, to be killed by the tests: `mapping.py FOLDER WORKERS [ENGINE] [KILL_AT]`.

With KILL_AT the driver kills itself at its n-th call of one of the system calls that change files, so that every point
between two of them is met. Prints the report as JSON.
"""

import dataclasses
import json
import os
import signal
import sys

from webdataset.tools import map_shards


class Upper:
    """A stage that pickles by name, of some length in time: it reads every byte."""

    def __call__(self, samples):
        for sample in samples:
            yield {**sample, "txt": sample["txt"].upper()}


def kill_at(number):
    """Let this process die at its n-th change of a file."""
    left = [number]

    def dying(function):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    for name in ("open", "writev", "replace", "fsync", "unlink", "rename"):
        setattr(os, name, dying(getattr(os, name)))


def main():
    folder, workers, engine, kill = (*sys.argv[1:], *("local", "0")[len(sys.argv) - 3 :])[:4]
    if int(kill):
        kill_at(int(kill))
    inputs = sorted(f"{folder}/in/{name}" for name in os.listdir(f"{folder}/in") if name.endswith(".tar"))
    report = map_shards(
        Upper(),
        inputs,
        f"{folder}/out/",
        executor=engine,
        workers=int(workers),
        job="upper",
        description=f"{folder}/out/all.json",
    )
    print(json.dumps(dataclasses.asdict(report)))


if __name__ == "__main__":
    main()
