"""The example of docs/order.md runs."""

import re
import subprocess
import sys
from pathlib import Path

from tests.pipeline.indexed import write_shards

DOCS = Path(__file__).parent.parent / "docs"


def test_stop_on_four_workers_go_on_with_three(tmp_path):
    text = (DOCS / "order.md").read_text()
    code = re.search(r"## Stop on four workers.*?```python\n(.*?)```", text, re.DOTALL).group(1)
    (tmp_path / "shards").mkdir()
    for number, url in enumerate(write_shards(tmp_path / "shards", [30, 7, 41, 22])):
        for suffix in (".tar", ".idx"):
            Path(url).with_suffix(suffix).rename(tmp_path / "shards" / f"train-{number:03d}{suffix}")
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True)
    assert '"position": 48' in done.stdout, done.stderr
