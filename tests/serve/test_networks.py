"""Workers and a trainer in network namespaces: latency, loss, a partition and its end. Needs root and iproute2."""

import json
import os
import shutil
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from tests.serve.pipelines import batches, plain

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
WORKER = """
import json, sys
from tests.serve.pipelines import batches
from webdataset.serve import Worker
worker = Worker(batches(json.loads(sys.argv[2])), sys.argv[1], insecure=True)
print(worker.address, flush=True)
worker.serve()
"""
TRAINER = """
import json, logging, sys
import webdataset as wds
logging.basicConfig(level=logging.INFO, stream=sys.stderr)
from tests.serve.pipelines import plain
dataset = wds.connect(json.loads(sys.argv[1]), insecure=True, patience=0.5, timeout=120)
for item in dataset:
    print(json.dumps(plain(item)), flush=True)
    sys.stdin.readline()  # the test says when to go on
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Network:
    """A namespace for the trainer and one for each of two workers, joined by pairs of interfaces."""

    def __init__(self):
        self.name = f"wds{uuid.uuid4().hex[:5]}"
        self.trainer = f"{self.name}t"
        self.processes = []

    def __enter__(self):
        ip("netns", "add", self.trainer)
        for number in range(2):
            space, here, there = self.space(number), f"{self.name}h{number}", f"{self.name}p{number}"
            ip("netns", "add", space)
            ip("link", "add", here, "netns", self.trainer, "type", "veth", "peer", "name", there, "netns", space)
            for where, link, end in ((self.trainer, here, 1), (space, there, 2)):
                ip("-n", where, "address", "add", f"10.77.{number}.{end}/24", "dev", link)
                ip("-n", where, "link", "set", link, "up")
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.communicate()
        for space in (self.trainer, self.space(0), self.space(1)):
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)

    def space(self, number):
        return f"{self.name}w{number}"

    def run(self, space, *words):
        process = subprocess.Popen(
            ["ip", "netns", "exec", space, sys.executable, "-c", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if words[0] is TRAINER else None,
            text=True,
            env=ENVIRONMENT,
        )
        self.processes.append(process)
        return process

    def disturb(self, number, *words):
        """Latency and loss on the worker's side."""
        command = ["tc", "qdisc", "replace", "dev", f"{self.name}p{number}", "root", "netem", *words]
        subprocess.run(
            ["ip", "netns", "exec", self.space(number), *command], check=True, capture_output=True, text=True
        )

    def cut(self, number):
        """What the worker sends goes to a hardware address that no interface has: it vanishes without a word."""
        self._neighbour(number, "replace", "lladdr", "02:00:00:00:00:99", "nud", "permanent")

    def heal(self, number):
        """The worker asks for the address again."""
        ip("-n", self.space(number), "neigh", "flush", "all", "nud", "permanent")

    def _neighbour(self, number, verb, *words):
        ip("-n", self.space(number), "neigh", verb, f"10.77.{number}.1", "dev", f"{self.name}p{number}", *words)

    def serve(self, number, shards):
        worker = self.run(self.space(number), WORKER, f"tcp://10.77.{number}.2:7880", json.dumps(shards))
        return worker.stdout.readline().strip()


@pytest.fixture
def network():
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        pytest.skip("network namespaces need root and iproute2")
    try:
        with Network() as found:
            yield found
    except subprocess.CalledProcessError as error:
        pytest.skip(f"network namespaces are not permitted: {error.stderr.strip()}")


def read(trainer):
    line = trainer.stdout.readline()
    if line:
        trainer.stdin.write("\n")
        trainer.stdin.flush()
    return json.loads(line) if line else None


def expected(shards):
    return json.loads(json.dumps([plain(item) for item in batches(shards)]))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_latency_and_loss_change_nothing(network, few):
    addresses = [network.serve(number, few) for number in range(2)]
    try:
        network.disturb(0, "delay", "60ms", "20ms", "loss", "5%")
        network.disturb(1, "delay", "30ms", "loss", "1%")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this kernel has no netem: {error.stderr.strip()}")
    trainer = network.run(network.trainer, TRAINER, json.dumps(addresses))
    assert list(iter(lambda: read(trainer), None)) == expected(few)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("cut", [[0], [1], [0, 1]], ids=["one", "the other", "both"])
def test_a_partition_and_its_end(network, shards, cut):
    """Packets vanish without a word. What comes is the local stream; with all workers away, the trainer waits."""
    addresses = [network.serve(number, shards) for number in range(2)]
    trainer = network.run(network.trainer, TRAINER, json.dumps(addresses))
    seen = [read(trainer) for _ in range(5)]
    for number in cut:
        network.cut(number)
    told = threading.Thread(target=heal_when_gone, args=(network, trainer, {addresses[number] for number in cut}))
    told.start()
    seen += list(iter(lambda: read(trainer), None))
    told.join()
    assert seen == expected(shards)


def heal_when_gone(network, trainer, cut):
    """End the partition when the trainer has said of every worker that it is gone."""
    for line in trainer.stderr:
        cut -= {address for address in cut if f"{address} is gone" in line}
        if not cut:
            break
    assert not cut
    for number in range(2):
        network.heal(number)
    trainer.stderr.read()
