"""An upload that is killed at any moment leaves what was there before, or the whole new object; never a part of it."""

import os
import subprocess
import sys

import pytest

import servers
from webdataset import stores

pytest.importorskip("obstore", reason="obstore is not installed")

# Forks writers that replace one object again and again in several parts, and kills each at a random moment. They are
# forked before the cloud's library starts its threads, so nothing of a dead one lives on.
KILLER = """
import os, random, signal, sys, time
import obstore
from webdataset import stores
from webdataset.stores import _object_store

_object_store._PART = 5 << 20  # the least that S3 takes

def write_forever(url, report):
    while True:
        letter = bytes([random.randrange(97, 123)])
        with stores.open_write(url) as stream:
            for _ in range(11):
                stream.write(letter * 1_000_000)
                os.write(report, b".")
        os.write(report, b"!")

url, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng, finished = random.Random(seed), 0
for _ in range(kills):
    heard, report = os.pipe()
    child = os.fork()
    if child == 0:
        random.seed(rng.random())
        write_forever(url, report)
    os.close(report)
    for _ in range(rng.randrange(1, 26)):
        finished += os.read(heard, 1) == b"!"
    time.sleep(rng.uniform(0, 0.02))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(heard)
    # Asked by a process of its own: this one must never use the library.
    looker = os.fork()
    if looker == 0:
        try:
            size = stores.stat(url).size
            letters = {stores.read_range(url, at, 1) for at in range(0, size, 5_400_000)}
        except FileNotFoundError:
            os._exit(0)
        os._exit(0 if size == 11_000_000 and len(letters) == 1 else 1)
    if os.waitpid(looker, 0)[1]:
        sys.exit("a part of an object was published")
print(finished)
"""


@pytest.mark.leaks_allowed  # obstore's runtime lives as long as the process
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kills", [12, pytest.param(1000, marks=pytest.mark.long)])
def test_killed_uploads_publish_all_or_nothing(kills, monkeypatch):
    import boto3

    with servers.moto() as port:
        endpoint = f"http://127.0.0.1:{port}"
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        client = boto3.client("s3", endpoint_url=endpoint)
        client.create_bucket(Bucket="killed")
        done = subprocess.run(
            [sys.executable, "-c", KILLER, "s3://killed/a.tar", str(kills), "1"],
            capture_output=True,
            text=True,
            timeout=3000,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) > kills / 10, "too few objects were finished for this test to mean something"
        assert client.list_multipart_uploads(Bucket="killed").get("Uploads"), "no writer was killed within an object"
        with stores.open_write("s3://killed/a.tar") as stream:  # and the next one is not disturbed
            stream.write(b"again")
        assert client.get_object(Bucket="killed", Key="a.tar")["Body"].read() == b"again"
        client.close()
