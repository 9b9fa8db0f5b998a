"""kill -9 at any moment: no corrupt read, no orphan after the next start, the limit kept, the origin asked once."""

import json
import os
import random
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from webdataset.testing import FaultServer

MB = 1 << 20


def killtest(folder, kills, seed, *, limit, shards, size, bandwidth):
    rng = random.Random(seed)
    data = {f"{n}.tar": b"\x1f\x8b" + rng.randbytes(size) for n in range(shards)}
    with FaultServer(bandwidth=bandwidth) as server:
        urls = [f"{server.add(name, content)}#{zlib.crc32(content)}" for name, content in data.items()]
        script = Path(__file__).with_name("killing.py")
        done = subprocess.run(
            [sys.executable, script, str(folder), str(limit), str(kills), str(seed), *urls],
            capture_output=True,
            text=True,
            timeout=3000,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        result["fetched"] = sum(server.sent(name) for name in data) / sum(map(len, data.values()))
    notes = os.listdir(Path(folder) / ".webdataset")
    result["orphans"] = [name for name in notes if name.endswith((".part", ".claim", ".new"))]
    return result, done.stderr


def without_limit(folder, kills, seed):
    """The origin is fetched at most 1.05 times, whoever dies; each kill loses only what was on the wire."""
    result, errors = killtest(
        folder, kills, seed, limit=-1, shards=max(20, kills * 2 // 5), size=5 * MB, bandwidth=30 * MB
    )
    assert result["bad"] == [], errors
    assert result["last"] == 0, errors
    assert result["orphans"] == []
    assert result["fetched"] <= 1.05


def with_limit(folder, kills, seed):
    limit = 20 * MB
    result, errors = killtest(folder, kills, seed, limit=limit, shards=12, size=4 * MB, bandwidth=60 * MB)
    assert result["bad"] == [], errors
    assert result["last"] == 0, errors
    assert result["highest"] <= limit + MB


def test_40_kills_without_a_limit(tmp_path):
    without_limit(tmp_path / "c", 40, 1)


def test_60_kills_under_a_limit(tmp_path):
    with_limit(tmp_path / "c", 60, 2)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_1000_kills(tmp_path):
    without_limit(tmp_path / "c", 500, 3)
    with_limit(tmp_path / "d", 500, 4)
