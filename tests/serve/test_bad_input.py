"""What goes wrong: typed errors on the side that can act, nothing hangs, nothing is lost."""

import os
import random
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import zmq

import webdataset as wds
from tests.pipeline.indexed import write_shards
from tests.serve.false_worker import false_worker
from tests.serve.pipelines import batches, picture, plain, stream
from webdataset.order import Remaining
from webdataset.plan import PlanState
from webdataset.serve import Worker
from webdataset.serve._message_parts import split
from webdataset.serve._messages import pack, unpack
from webdataset.serve._worker_roster import Deadline

QUICK = {"patience": 0.4, "timeout": 1.5}  # where no worker answers
WATCHFUL = {"patience": 0.4, "timeout": 60}  # where one does not
PATIENT = {"patience": 10, "timeout": 60}  # where all do, however slow the machine is


def offered(worker):
    """What a real worker says to a greeting."""

    def offer(number):
        return worker._answer(b"x", b"hello", number, {"number": number})

    return offer


GARBAGE = {
    "bytes": [[os.urandom(50)]],
    "frames of bytes": [[os.urandom(9), os.urandom(50), os.urandom(8)]],
    "nothing": [[b""]],
    "another kind": [pack(b"sing", {"number": 0})],
    "no number": [pack(b"pong", {})],
    "an offer without contents": [pack(b"offer", {"number": 0, "protocol": 1})],
    "a header that is no dict": [[b"pong", b"\x01"]],
    "another protocol": [pack(b"offer", {"number": 0, "protocol": 99})],
    "a deep header": [[b"pong", b"\x91" * 3000 + b"\x01"]],
}


@pytest.mark.parametrize("name", GARBAGE)
def test_a_worker_that_answers_garbage_is_not_used(few, name):
    with false_worker(lambda message: GARBAGE[name]) as bad:
        with pytest.raises(wds.StateError, match="no worker can be used"):
            wds.connect(bad, **PATIENT)
        with Worker(batches(few)) as good:
            assert stream(wds.connect([bad, good.address], **WATCHFUL)) == stream(batches(few))


@pytest.mark.parametrize(
    "items",
    [b"\xc1", b"\x93\xa4list", b"\x92\xa4list\x05", b"\x92\xa5array\x00", b"\x92\xa6pickle\x00", b"\x01"],
    ids=["not msgpack", "truncated", "a list of no items", "a missing frame", "an unknown tag", "a number"],
)
def test_a_worker_whose_items_are_garbage_loses_them_to_others(few, items):
    with Worker(batches(few)) as good:

        def answer(message):
            kind, header, _ = unpack(message)
            if kind == b"hello":
                return [offered(good)(header["number"])]
            if kind == b"make":
                return [pack(b"made", {"number": header["number"]}, [items])]
            return None

        with false_worker(answer) as bad:
            assert stream(wds.connect([bad, good.address], **WATCHFUL)) == stream(batches(few))


def test_a_request_that_a_worker_has_lost_is_asked_again(few):
    lost = []
    with Worker(batches(few, 31)) as real, Worker(batches(few, 31)) as other:
        made = {}

        def answer(message):
            kind, header, _ = unpack(message)
            if kind == b"hello":
                return [offered(real)(header["number"])]
            if kind == b"ping":
                return [pack(b"pong", {"number": header["number"], "held": [], "stats": {}})]
            if kind == b"make" and not lost:
                lost.append(header["number"])
                return None
            if kind == b"make":
                return [pack(b"busy", {"number": header["number"]})] if made else _forward(other, header)
            return None

        with false_worker(answer) as address:
            assert stream(wds.connect(address, patience=0.4, timeout=20)) == stream(batches(few, 31))
    assert lost


def _forward(worker, header):
    """Let a real worker make it."""
    from webdataset.serve._messages import Request

    made = worker._encode(Request.from_json(header))
    return list(split(b"made", {"number": header["number"]}, made.frames))


def test_a_half_open_connection(few):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(wds.StoreTimeout, match="no worker answers"):
            wds.connect(address, **QUICK)
        with Worker(batches(few)) as good:
            assert stream(wds.connect([address, good.address], **WATCHFUL)) == stream(batches(few))


def test_an_address_where_no_worker_is(few, addresses):
    with pytest.raises(wds.StoreTimeout, match=f"no worker answers: {addresses[0]} no connection"):
        wds.connect(addresses[0], **QUICK)
    with pytest.raises(wds.SpecError, match="not an address – nowhere"):
        wds.connect("nowhere", **QUICK)
    with pytest.raises(wds.SpecError, match="needs the address"):
        wds.connect([])


FIRST_WORDS = {
    "nothing": b"",
    "HTTP": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" * 4,
    "another socket of ZeroMQ": b"\xff"
    + bytes(8)
    + b"\x7f\3\0NULL"
    + bytes(48)
    + b"\4\x19\5READY\x0bSocket-Type\0\0\0\3PUB",
}


@pytest.mark.parametrize("name", FIRST_WORDS)
def test_a_port_that_another_program_had_first(few, addresses, name):
    """A connection that fails in its handshake, also one that ZeroMQ gives up for ever, is tried again."""
    port, workers = int(addresses[0].rpartition(":")[2]), []

    def first_another_program():
        with socket.create_server(("127.0.0.1", port)) as other:
            for _ in range(2):
                connection, _ = other.accept()
                with connection:
                    connection.sendall(FIRST_WORDS[name])
        workers.append(Worker(batches(few), addresses[0]).start())

    thread = threading.Thread(target=first_another_program)
    thread.start()
    try:
        assert stream(wds.connect(addresses[0], patience=0.2, timeout=30)) == stream(batches(few))
    finally:
        thread.join()
        workers[0].stop()


def test_time_in_which_a_trainer_did_not_run_does_not_count(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    deadline, never = Deadline(3.0), Deadline(None)
    for seconds, expected in ((0.5, False), (3600.0, False), (1.0, False), (0.6, True)):
        now[0] += seconds
        assert deadline.is_over() is expected
        assert not never.is_over()


def test_all_workers_end_in_the_middle(shards):
    worker = Worker(batches(shards, 64)).start()
    items = iter(wds.connect(worker.address, **QUICK))
    next(items)
    worker.stop()
    with pytest.raises(wds.StoreTimeout, match="no worker answers"):
        list(items)


def test_a_worker_that_appears_later_is_used(shards, addresses):
    with Worker(batches(shards, 64), addresses[0]) as first:
        dataset = wds.connect(addresses[:2], **WATCHFUL)
        items = iter(dataset)
        seen = [plain(next(items))]
        first.stop()
        with Worker(batches(shards, 64), addresses[1]) as second:
            seen += [plain(item) for item in items]
            assert second.stats()["items"] > 0
    assert seen == stream(batches(shards, 64))


def test_workers_that_differ_are_refused_with_what_differs(few, addresses):
    with Worker(batches(few)) as one, Worker(batches(few, seed=4)) as two:
        with pytest.raises(wds.StateError, match="seed"):
            wds.connect([one.address, two.address], **PATIENT)
    with Worker(batches(few)) as one, Worker(batches(few, 5)) as two:
        with pytest.raises(wds.StateError, match="stage 0 there is ReadPlanned.*batch=5"):
            wds.connect([one.address, two.address], **PATIENT)
    with Worker(batches(few)) as one, Worker(batches(few)) as two:
        two._maker.offer.code["webdataset"] = "9.9"
        two._maker.offer.__dict__.pop("digest", None)
        with pytest.raises(wds.StateError, match="the code of webdataset is 9.9, here it is"):
            wds.connect([one.address, two.address], **PATIENT)


def test_a_worker_that_comes_back_with_another_version_is_not_used(shards, addresses, caplog):
    first = Worker(batches(shards, 64), addresses[0]).start()
    with Worker(batches(shards, 64), addresses[1]) as second:
        items = iter(wds.connect(addresses[:2], **WATCHFUL))
        seen = [plain(next(items))]
        first.stop()
        with Worker(batches(shards, 64, seed=4), addresses[0]) as other:
            seen += [plain(item) for item in items]
            assert other.stats()["items"] == 0
        assert second.stats()["items"] > 0
    assert seen == stream(batches(shards, 64))


def test_a_port_that_is_taken(few):
    with Worker(batches(few)) as worker, pytest.raises(wds.StoreError, match="cannot listen"):
        Worker(batches(few), worker.address)


REFUSED = {
    "has no index": lambda few: wds.WebDataset(few, index=False).batched(4),
    "hold samples": lambda few: batches(few).unbatched().shuffle(10),
    "may drop samples": lambda few: wds.WebDataset(few, order="random").select(bool).batched(4),
    "repeats": lambda few: batches(few).repeat(2),
    "expected a dataset": lambda few: 7,
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_served(few, sentence):
    with pytest.raises(wds.SpecError, match=sentence):
        Worker(lambda: REFUSED[sentence](few))


def lossy(sample):
    return None if sample["__key__"] == "00007" else picture(sample)


@pytest.mark.parametrize("options", [{"order": "random"}, {"shardshuffle": False}], ids=str)
def test_a_function_that_drops_a_sample_is_reported(few, options):
    with Worker(wds.WebDataset(few, **options).map(lossy).batched(4)) as worker:
        with pytest.raises(wds.StageError, match="was dropped"):
            stream(wds.connect(worker.address, **PATIENT))


def failing(sample):
    if sample["__key__"] == "00007":
        raise wds.DecodingError("a.tar", "00007", "jpg", what="not a picture")
    return picture(sample)


def test_an_error_of_a_function_comes_in_its_turn(few):
    def make():
        return wds.WebDataset(few, order="random").map(failing).batched(4)

    with Worker(make) as one, Worker(make) as two:
        local, remote = make(), wds.connect([one.address, two.address], **PATIENT)
        seen = {}
        for name, dataset in (("local", local), ("remote", remote)):
            seen[name] = []
            with pytest.raises(wds.WebDatasetError, match="not a picture"):
                for item in dataset:
                    seen[name].append(plain(item))
        assert seen["local"][: len(seen["remote"])] == seen["remote"]
        # Steps that are asked for together fail together: nothing after what was handed on is done.
        state = remote.state_dict()["at"]["plan"]["remaining"]
        assert state["position"] == 4 * len(seen["remote"])


def test_an_item_that_cannot_be_sent(few):
    with Worker(wds.WebDataset(few, order="random").map(lambda sample: {"a": object()})) as worker:
        with pytest.raises(wds.EncodingError, match=r"item\[0\]\['a'\] is a object, which cannot be sent"):
            stream(wds.connect(worker.address, **PATIENT))


def test_requests_that_are_no_requests_are_ignored(few):
    with Worker(batches(few)) as worker:
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.linger = 0
            socket.connect(worker.address)
            for message in (
                [b"x"],
                [b"make", b"\xc1"],
                [b"make", b"\x80"],
                [b"", b"", b""],
                pack(b"make", {"number": 1}),
            ):
                socket.send_multipart(message)
            huge = {"number": 1, "batch": 10**30 % 2**63}
            socket.send_multipart(pack(b"hello", huge))
            assert stream(wds.connect(worker.address, **PATIENT)) == stream(batches(few))


def test_bytes_that_are_not_zeromq_do_not_disturb(few):
    """Another program, or an attacker, talks to a worker's port while a trainer reads."""
    noise = random.Random(3)
    greeting = b"\xff" + bytes(8) + b"\x7f\3\0NULL" + bytes(48)
    frames = [b"\4\x19\5READY\x0bSocket-Type\0\0\0\6DEALER", b"\2\xff\xff\xff\xff\xff\xff\xff\xff", b"\0\4make"]
    with Worker(batches(few)) as worker, ExitStack() as stack:
        place = ("127.0.0.1", int(worker.address.rpartition(":")[2]))
        for words in (b"GET / HTTP/1.1\r\n\r\n", greeting, *(greeting + b"".join(frames[:n]) for n in (1, 2, 3))):
            for tail in (b"", noise.randbytes(100), noise.randbytes(5000)):
                connection = stack.enter_context(socket.create_connection(place))
                with suppress(OSError):
                    connection.sendall(words + tail)
        assert stream(wds.connect(worker.address, **PATIENT)) == stream(batches(few))


def test_nothing_is_kept_of_trainers_that_are_gone(few):
    with Worker(batches(few)) as worker:
        for _ in range(3):
            stream(wds.connect(worker.address, **PATIENT))
            items = iter(wds.connect(worker.address, **PATIENT))
            next(items)
            items.close()
        stream(wds.connect(worker.address, **PATIENT))  # it was said after the others had said goodbye
        assert worker._held == {}


@pytest.mark.parametrize("ranges", [7000])
def test_a_rest_of_very_many_ranges_is_asked_for(tmp_path, ranges):
    """Of an epoch that very many ranks and workers left: larger than other requests, and never a connection closed."""
    shards = write_shards(tmp_path, [3 * ranges])

    def make():
        return wds.WebDataset(shards, order="random", seed=3).map(key_of).batched(1000, collation_fn=None)

    rest = Remaining(3 * ranges, 0, tuple((3 * n + 1, 3 * n + 2) for n in range(ranges)))
    local = make()
    state = local.state_dict()
    state["at"]["plan"] = PlanState(rest).to_json()
    with Worker(make) as worker:
        remote = wds.connect(worker.address, **PATIENT)
        for dataset in (local, remote):
            dataset.load_state_dict(state)
        found = stream(remote)
        assert found == stream(local)
        assert sum(map(len, found)) == 2 * ranges


def key_of(sample):
    return sample["__key__"]


def test_a_full_queue_delays_and_loses_nothing(few):
    with Worker(batches(few), threads=4, queue=1) as worker:
        first, second = wds.connect(worker.address, **PATIENT), wds.connect(worker.address, **PATIENT)
        expected = stream(batches(few))
        assert [(plain(a), plain(b)) for a, b in zip(first, second, strict=True)] == [(e, e) for e in expected]


TRAINER = """
import json, sys
import webdataset as wds
from tests.serve.pipelines import plain
dataset = wds.connect(sys.argv[1], patience=2, timeout=20)
for item in dataset:
    print(json.dumps([plain(item), dataset.state_dict()]), flush=True)
"""


def test_a_killed_trainer_goes_on_elsewhere(few):
    import json

    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    with Worker(batches(few)) as worker:
        trainer = subprocess.Popen(
            [sys.executable, "-c", TRAINER, worker.address], stdout=subprocess.PIPE, text=True, env=environment
        )
        lines = [trainer.stdout.readline() for _ in range(3)]
        trainer.kill()
        trainer.communicate()
        seen, states = zip(*map(json.loads, lines), strict=True)
        again = wds.connect(worker.address, **PATIENT)
        again.load_state_dict(states[-1])
        rest = stream(again)
    expected = stream(batches(few))
    assert json.loads(json.dumps([*seen, *rest])) == json.loads(json.dumps(expected))
