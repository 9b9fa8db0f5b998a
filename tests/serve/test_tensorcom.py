"""Streams of arrays: between ours, and with tensorcom 0.1.0 as it is, where it is installed.

Set TENSORCOM_PYTHON to an interpreter that has it: it runs in an environment of its own.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import webdataset as wds
from tests.serve.conftest import free_address
from webdataset.serve import Connection, TensorcomDataset, array_statistics, zconnect

TENSORCOM = os.environ.get("TENSORCOM_PYTHON")
TYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]


def batches(count=5):
    return [[np.full((4, 3, 3, 3), n, "f2"), np.arange(4, dtype="i4") + n] for n in range(count)]


def port():
    return free_address().removeprefix("tcp://")


@pytest.mark.parametrize(("sender", "receiver"), [("zpush", "zpull"), ("zrpush", "zrpull"), ("zrpub", "zrsub")])
def test_both_directions(sender, receiver):
    place = port()
    received = []

    def receive():
        with Connection(f"{receiver}://{place}", timeout=20) as connection:
            if "sub" in receiver:
                ready.set()
            received.extend(connection.items())

    ready = threading.Event()
    thread = threading.Thread(target=receive)
    thread.start()
    with Connection(f"{sender}://{place}", timeout=20) as connection:
        if "sub" in receiver:  # what is published before anybody listens is lost: say it until it is heard
            while not received:
                connection.send(batches()[0])
        connection.serve(batches(), end=True)
        thread.join()
        assert connection.stats.messages >= 6
        assert "samples/s" in connection.stats.summary()
    for found, expected in zip(received[-5:], batches(), strict=True):
        assert all((a == b).all() and a.dtype == b.dtype for a, b in zip(found, expected, strict=True))


def test_several_endpoints_and_all_types():
    places = [port(), port()]
    arrays = [np.arange(6).reshape(2, 3).astype(code) for code in TYPES]
    with Connection([f"zpull://{place}" for place in places], timeout=20) as pull:
        for place in places:
            with Connection(f"zpush://{place}", allow64=True) as push:
                push.send(arrays)
            assert [str(array.dtype) for array in pull.recv()] == [str(array.dtype) for array in arrays]
    with Connection(f"zpush://{places[0]}", timeout=0.05) as push:
        with pytest.raises(wds.EncodingError, match="64-bit"):
            push.send([np.zeros(3)])


def test_a_sender_without_a_receiver_does_not_wait_for_ever():
    with Connection(f"zrpush://{port()}", timeout=0.05) as push:
        with pytest.raises(wds.StoreTimeout, match="no receiver took a message"):
            push.send([np.zeros(3, "f4")])


def test_the_torch_converter():
    torch = pytest.importorskip("torch")
    place = port()
    with Connection(f"zpull://{place}", converters="torch", timeout=20) as pull, Connection(f"zpush://{place}") as push:
        push.send([np.zeros((2, 8, 9, 3), "f2"), np.zeros(2, "i4"), np.zeros(2, "u4")])
        images, labels, unsigned = pull.recv()
    assert (images.shape, images.dtype) == ((2, 3, 8, 9), torch.float32)
    assert labels.dtype == unsigned.dtype == torch.int64


def test_a_stream_is_unbatched_shuffled_and_batched_again():
    place = port()
    thread = threading.Thread(target=lambda: _serve(place))
    thread.start()
    source = TensorcomDataset(f"zpull://{place}", length=5, timeout=20)
    dataset = wds.DataPipeline(source, wds.unbatched(), wds.shuffle(10), wds.batched(5))
    labels = [int(label) for _, found in dataset for label in found]
    thread.join()
    assert len(source) == 5
    assert sorted(labels) == sorted(int(label) for _, found in batches() for label in found)


def _serve(place):
    with Connection(f"zpush://{place}") as connection:
        connection.serve(batches())


def test_what_goes_wrong():
    place = port()
    with pytest.raises(wds.SpecError, match="not a stream's address"):
        Connection("http://127.0.0.1:80")
    with Connection(f"zpull://{place}", timeout=0.05) as connection:
        with pytest.raises(wds.StoreTimeout):
            connection.recv()
        with pytest.raises(wds.StoreError):
            Connection(f"zpull://{place}")
        connection.timeout = 20
        socket = zconnect(f"zpush://{place}", context=connection._context)
        for garbage in ([b"x"], [b"x", b"y"], [b"\0" * 24, b""]):
            socket.send_multipart(garbage)
            with pytest.raises(wds.FormatError):
                connection.recv()
        socket.close()


def test_statistics():
    (images, labels) = array_statistics(batches(2))
    assert (images["min"], images["max"], images["mean"], images["std"]) == (0, 1, 0.5, 0.5)
    assert labels["kinds"] == ["int32[4]"]


SEND = """
import sys, numpy as np
from tensorcom import Connection
connection = Connection(sys.argv[1])
while True:  # a subscriber hears only what is sent after it is known
    for n in range(5):
        connection.send([np.full((4, 3, 3, 3), n, "f2"), np.arange(4, dtype="i4") + n])
"""
RECEIVE = """
import sys, json
from tensorcom import Connection
connection = Connection(sys.argv[1])
for n in range(5):
    images, labels = connection.recv()
    print(json.dumps([str(images.dtype), list(images.shape), float(images.sum()), labels.tolist()]), flush=True)
"""
PAIRS = [("zpush", "zpull"), ("zrpush", "zrpull"), ("zpub", "zsub"), ("zrpub", "zrsub")]
needs_tensorcom = pytest.mark.skipif(
    TENSORCOM is None, reason="TENSORCOM_PYTHON names no interpreter with tensorcom 0.1.0"
)


def run_theirs(*words, **options):
    """tensorcom in its own environment: none of our packages is on its path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.Popen([TENSORCOM, *words], env=environment, text=True, **options)


def theirs(command):
    return str(Path(TENSORCOM).with_name(command))


def end(process):
    process.kill()
    process.communicate()


@pytest.mark.long
@needs_tensorcom
@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_tensorcom_sends_to_us(sender, receiver):
    place = port()
    with Connection(f"{receiver}://{place}", timeout=60) as connection:
        process = run_theirs("-c", SEND, f"{sender}://{place}")
        try:
            received = [connection.recv() for _ in range(10)]
        finally:
            end(process)
    first = int(received[0][1][0])
    for number, found in enumerate(received, first):
        expected = batches()[number % 5]
        assert all((a == b).all() and a.dtype == b.dtype for a, b in zip(found, expected, strict=True))


@pytest.mark.long
@needs_tensorcom
@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_tensorcom_receives_from_us(sender, receiver):
    place = port()
    process = run_theirs("-c", RECEIVE, f"{receiver}://{place}", stdout=subprocess.PIPE)
    with Connection(f"{sender}://{place}", timeout=60) as connection:
        connection.serve(batches())
        while "pub" in sender and process.poll() is None:
            connection.serve(batches())
        lines = [json.loads(line) for line in process.communicate()[0].splitlines()]
    first = lines[0][3][0]
    assert lines == [
        ["float16", [4, 3, 3, 3], float(images.sum()), labels.tolist()]
        for images, labels in (batches()[(first + number) % 5] for number in range(5))
    ]


def ours(name, *words):
    from webdataset.cli import _tensorcom_commands as commands

    return CliRunner().invoke(getattr(commands, name), words, catch_exceptions=False).output


@pytest.mark.long
@needs_tensorcom
def test_our_commands_read_what_tensorcom_sends(tmp_path):
    place = port()
    process = run_theirs("-c", SEND, f"zpub://{place}")
    try:
        assert json.loads(ours("tensormon", f"zsub://{place}", "-c", "3", "--json"))["messages"] == 3
        images, labels = json.loads(ours("tensorstat", f"zsub://{place}", "-c", "10", "--json"))
        assert (images["min"], images["max"], labels["kinds"]) == (0, 4, ["int32[4]"])
        ours("tensorshow", f"zsub://{place}", "-B", "2", "-t", "60", "-o", str(tmp_path / "%d.png"))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["0.png", "1.png"]
    finally:
        end(process)


@pytest.mark.long
@needs_tensorcom
def test_their_commands_read_what_our_server_of_shards_sends(tmp_path):
    place, shard = port(), imagenet_shard(tmp_path)
    server = subprocess.Popen(
        [sys.executable, "-c", SERVE, f"zpub://{place}", "-u", shard, "-b", "4"],
        env={**os.environ, "PYTHONPATH": str(Path(wds.__file__).parents[1])},
    )
    try:
        found = json.loads(ours("tensorstat", f"zsub://{place}", "-c", "5", "--json"))
        assert [each["kinds"] for each in found] == [["uint8[4,224,224,3]"], ["int32[4]"]]
        monitor = run_theirs(theirs("tensormon"), f"zsub://{place}", "-c", "4", stdout=subprocess.PIPE)
        monitor.communicate()
        assert monitor.returncode == 0
    finally:
        end(server)


SERVE = "from webdataset.cli._tensorcom_commands import serve_imagenet_shards; serve_imagenet_shards()"


def imagenet_shard(folder):
    from webdataset.testing import make_shard

    samples = [{"__key__": str(n), "jpg": np.full((30, 40, 3), 20 * n, np.uint8), "cls": n} for n in range(8)]
    return make_shard(folder / "a.tar", samples)
