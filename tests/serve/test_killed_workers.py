"""Workers are killed and stopped; the stream is the local one, bit for bit."""

import os
import random
import signal

import pytest

import webdataset as wds
from tests.serve.nursery import Nursery
from tests.serve.pipelines import batches, plain


@pytest.fixture(scope="module")
def nursery():
    nursery = Nursery()
    yield nursery
    nursery.close()


def read_with_faults(shards, addresses, nursery, faults, seed):
    """Read some epochs, with so many faults after random items, and compare every item with the local one."""
    chance = random.Random(seed)
    pids = {address: nursery.start(address, shards=shards, batch=16) for address in addresses}
    stopped = []
    passes = 1 + faults // 30
    points = set(chance.sample(range(1, 63 * passes), faults))
    local = batches(shards, 16).repeat(passes)
    remote = wds.connect(addresses, patience=0.3, timeout=120).repeat(passes)
    count = 0
    try:
        for count, (here, there) in enumerate(zip(local, remote, strict=True), 1):
            assert plain(here) == plain(there)
            if count in points:
                while len(stopped) > 1:  # at least two of four run
                    os.kill(pids[stopped.pop(0)], signal.SIGCONT)
                address = chance.choice(addresses)
                if chance.random() < 0.5:
                    os.kill(pids[address], signal.SIGSTOP)
                    stopped.append(address)
                else:
                    os.kill(pids[address], signal.SIGKILL)
                    stopped = [other for other in stopped if other != address]
                    pids[address] = nursery.start(address, shards=shards, batch=16)
    finally:
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
    assert count == 63 * passes


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("faults", [100, pytest.param(1000, marks=pytest.mark.long)])
def test_any_worker_may_be_killed_or_stopped_often(shards, addresses, nursery, faults):
    read_with_faults(shards, addresses, nursery, faults, 3)
