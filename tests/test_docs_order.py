"""The example of docs/order.md runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.pipeline.indexed import write_shards

DOCS = Path(__file__).parent.parent / "docs"


def test_stop_on_four_workers_go_on_with_three(tmp_path):
    text = (DOCS / "order.md").read_text()
    code = re.search(r"## Stop on four workers.*?```python\n(.*?)```", text, re.DOTALL).group(1)
    (tmp_path / "data").mkdir()
    for number, url in enumerate(write_shards(tmp_path / "data", [30, 7, 41, 22, 1, 9, 3, 16])):
        for suffix in (".tar", ".idx"):
            Path(url).with_suffix(suffix).rename(tmp_path / "data" / f"train-{number:06d}{suffix}")
    (tmp_path / "example.py").write_text(code)
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert '"position": 48' in done.stdout, done.stderr
