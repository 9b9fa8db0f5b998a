"""Write `states/NAME.json` for every pipeline; run once, with the code whose checkpoints are to stay readable.

    PYTHONPATH=OLD_CHECKOUT/src python -m tests.golden.make_states

A file holds the keys of an uninterrupted run, epoch by epoch, and the states at several stop points. `v1_exact` says
whether the code that wrote the state also resumed it exactly: the rest of that epoch, and the whole epoch after it. The
test asks newer code for what was exact, not for the others.
"""

import json
import os
import tempfile
from pathlib import Path

from tests.golden.pipelines import PIPELINES
from tests.golden.shards import write_shards
from tests.golden.replay import following, resume, save_at, stop_points, uninterrupted

STATES = Path(__file__).parent / "states"
EPOCHS = 4


def main():
    with tempfile.TemporaryDirectory() as directory:
        write_shards(directory)
        os.chdir(directory)
        for name in PIPELINES:
            golden = make(name)
            (STATES / f"{name}.json").write_text(_text(golden))
            stops = golden["stops"]
            print(f"{name}: {sum(all(stop['v1_exact']) for stop in stops)} of {len(stops)} exact")
        os.chdir("/")


def make(name):
    epochs = uninterrupted(name, EPOCHS)
    if uninterrupted(name, EPOCHS) != epochs:
        raise AssertionError(f"{name} is not deterministic")
    return {"epochs": epochs, "stops": [_stop(name, epochs, *point) for point in stop_points(name, epochs)]}


def _stop(name, epochs, epoch, after):
    stop = {"epoch": epoch, "after": after}
    try:
        text = save_at(name, epoch, after)
    except Exception as error:
        return {**stop, "v1_exact": [False, False], "saving": f"{type(error).__name__}: {error}"}
    stop["state"] = json.loads(text)
    try:
        found = resume(name, text)
    except Exception as error:
        return {**stop, "v1_exact": [False, False], "resuming": f"{type(error).__name__}: {error}"}
    expected = following(name, epochs, epoch, after)
    return {**stop, "v1_exact": [here == there for here, there in zip(found, expected, strict=True)]}


def _text(golden):
    """One line per epoch and stop point, so that a difference can be read."""
    parts = []
    for name, rows in golden.items():
        lines = ",\n  ".join(json.dumps(row, separators=(",", ":"), sort_keys=True) for row in rows)
        parts.append(f' "{name}": [\n  {lines}\n ]')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()
