"""A program that converts, to be killed by the tests: `converting.py FOLDER WORKERS ENGINE KILL_AT`.

With KILL_AT the driver kills itself at its n-th call of one of the system calls that change files.
"""

import sys

from tests.tools.mapping import kill_at
from webdataset.interop import convert
from webdataset.tools import Options


def run(folder, workers=1, engine="local"):
    options = Options(workers=workers, engine=engine, description=f"{folder}/out/all.json")
    convert(f"{folder}/in-{{0..2}}.tfrecord", f"{folder}/out/%d.tar", options)


if __name__ == "__main__":
    folder, workers, engine, kill = sys.argv[1:]
    if int(kill):
        kill_at(int(kill))
    run(folder, int(workers), engine)
