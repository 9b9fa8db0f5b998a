"""Run by test_slow_device.py in a process of its own: a foreign device is registered once and for all."""

import json
import sys
import types
from itertools import islice

import numpy as np
import torch
from torch.utils.cpp_extension import load as build

from tests.loader.sources import numbers
from webdataset.loader import WebLoader


def build_device(source, directory):
    """torch's device "slow", and the module that has its functions."""
    built = build("slow_device", [source], build_directory=directory, extra_cflags=["-O0"])
    torch.utils.rename_privateuse1_backend("slow")
    module = types.ModuleType("torch.slow")
    module.device_count, module.is_available, module.current_device = lambda: 1, lambda: True, lambda: 0
    module._is_in_bad_fork, module.manual_seed_all = lambda: False, lambda seed: None
    torch._register_device_module("slow", module)
    return built


def load(workers, n):
    dataset = numbers(60).map(lambda i: {"key": i, "x": np.full(100, i, np.float32), "y": torch.full((3,), 1.0 * i)})
    return WebLoader(dataset, batch_size=None, num_workers=n, workers=workers, device="slow", collate_fn=None)


def keys(items):
    return [int(batch["key"]) for batch in items]


def look(slow, workers, n):
    """What the device made of the batches, with a program that is far ahead of it; and whether resuming is exact."""
    before, results = slow.counts(), []
    for batch in load(workers, n):
        assert batch["x"].device == torch.device("slow", 0)
        results.append(torch.empty(100, device="slow"))
        slow.add_one(batch["x"], results[-1])
        del batch
    found = [sorted(set(result.cpu().tolist())) for result in results]
    counted = {name: number - before.get(name, 0) for name, number in slow.counts().items()}
    resumed = []
    for stop in (0, 1, 7, 59, 60):
        first, again = load(workers, n), load(workers, n)
        items = iter(first)
        head = keys(islice(items, stop))
        again.load_state_dict(json.loads(json.dumps(first.state_dict())))
        items.close()
        resumed.append(head + keys(again) == list(range(60)))
    return {"right": found == [[i + 1.0] for i in range(60)], "resumed": all(resumed), **counted}


if __name__ == "__main__":
    device = build_device(*sys.argv[1:])
    loaders = [("threads", 0), ("threads", 2), ("processes", 0), ("processes", 2)]
    print(json.dumps({f"{workers} {n}": look(device, workers, n) for workers, n in loaders}))
