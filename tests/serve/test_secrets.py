"""What `wds serve` prints, logs and sends over the network has no secret of an address."""

import logging
import re
import socket
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

import webdataset as wds
from tests.serve.pipelines import stream
from tests.stores.fakes import send_object
from webdataset import stores
from webdataset.errors import WebDatasetError
from webdataset.index import index_shards
from webdataset.serve import Worker
from webdataset.testing import LoopbackServer, make_shard

SECRET = "Zq7S3cr3tW0rd"  # noqa: S105


class Listener:
    """Passes the bytes of connections on to a worker, and keeps them."""

    def __init__(self, address):
        self.port, self.heard = int(address.rpartition(":")[2]), bytearray()

    def __enter__(self):
        self.socket, self.open = socket.create_server(("127.0.0.1", 0)), []
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()
        self.address = f"tcp://127.0.0.1:{self.socket.getsockname()[1]}"
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        for each in [self.socket, *self.open]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for each in [self.socket, *self.open]:
            each.close()

    def accept(self):
        with suppress(OSError):
            while True:
                ends = [self.socket.accept()[0], socket.create_connection(("127.0.0.1", self.port))]
                self.open += ends
                for pair in (ends, ends[::-1]):
                    self.threads.append(threading.Thread(target=self.pump, args=pair))
                    self.threads[-1].start()

    def pump(self, source, target):
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                self.heard += piece
                target.sendall(piece)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def url(tmp_path, monkeypatch):
    monkeypatch.setenv("WDS_RETRIES", "0")
    path = tmp_path / "a.tar"
    make_shard(str(path), [{"__key__": str(n), "txt": "x", "cls": n} for n in range(6)])
    index_shards([str(path)], store_index=True)
    bodies = {f"/{name}": (tmp_path / name).read_bytes() for name in ("a.tar", "a.idx")}
    with LoopbackServer(lambda handler: send_object(handler, bodies[handler.path.partition("?")[0]])) as server:
        yield server.url("a.tar?token=").replace("://", f"://me:{SECRET}@") + SECRET
    stores.close_connections()


def cannot_use(sample):
    raise ValueError(f"cannot use {sample['__url__']}")


PIPELINES = {
    "samples": lambda url: wds.WebDataset(url, index=True).decode(),
    "tuples": lambda url: wds.WebDataset(url, index=True).to_tuple("__url__", "cls"),
    "batches": lambda url: wds.WebDataset(url, index=True).decode().batched(2),
    "errors": lambda url: wds.WebDataset(url, index=True).map(cannot_use),
}


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_nothing_that_is_sent_has_a_secret(url, pipeline, caplog):
    caplog.set_level(logging.DEBUG)
    with Worker(PIPELINES[pipeline](url)) as worker, Listener(worker.address) as listener:
        try:
            dataset = wds.connect(listener.address, patience=2, timeout=20)
            assert SECRET not in repr(dataset)
            items = stream(dataset)
        except WebDatasetError as error:
            assert pipeline == "errors" and "cannot use" in str(error) and SECRET not in str(error)
        else:
            assert "a.tar" in str(items) and SECRET not in str(items)
    assert b"make" in listener.heard and SECRET.encode() not in listener.heard
    assert SECRET not in caplog.text


@pytest.mark.parametrize("words", [["-vv", "--traceback"], ["--to", "zpush://127.0.0.1:0?token={s}"]])
def test_what_the_verb_prints_has_no_secret(url, words):
    told = [word.format(s=SECRET) for word in words]
    for shard in (url, url.replace("a.tar", "missing.tar")):
        worker = subprocess.Popen(
            [sys.executable, "-m", "webdataset", "serve", "--bind", "tcp://127.0.0.1:*", *told, shard],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said = worker.stdout.readline()
        if found := re.search(r"serving at (\S+)", said):
            assert len(stream(wds.connect(found[1], patience=2, timeout=20))) == 6
        worker.terminate()
        said += worker.communicate()[0]
        assert said and SECRET not in said
