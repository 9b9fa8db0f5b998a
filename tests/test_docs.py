"""The documents tell the truth: every Python block of the README and of docs/ runs.

The blocks of one document share a namespace and run in order, in a directory with a small dataset of the shape that the
documents speak of. A block that cannot run here stands behind a comment that says why:
`<!-- not run: needs a bucket -->`.
"""

import io
import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import webdataset as wds
from webdataset.config import VARIABLES

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks" / "README.md"]
DOCUMENTS = [path for path in DOCUMENTS if path.exists()]
BLOCK = re.compile(r"(<!-- not run: ([^\n]+?) -->\s*)?^```python\n(.*?)^```", re.S | re.M)


def blocks(path):
    """(line, reason for not running, source) of every Python block."""
    text = path.read_text()
    for match in BLOCK.finditer(text):
        yield text[: match.start(3)].count("\n") + 1, match.group(2), match.group(3)


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """`data/train-000000.tar` … `data/train-000007.tar`: eight shards of images, labels and notes."""
    (tmp_path / "data").mkdir()
    rng = np.random.default_rng(0)
    for shard in range(8):
        with wds.TarWriter(str(tmp_path / f"data/train-{shard:06d}.tar")) as sink:
            for number in range(10):
                image = rng.integers(0, 255, (16, 20, 3), dtype=np.uint8)
                sample = {
                    "jpg": image,
                    "cls": number,
                    "json": {"n": number},
                    "txt": f"number {number}",
                    "npy": np.arange(3),
                }
                sink.write({"__key__": f"{shard:02d}{number:02d}", **sample})
    monkeypatch.chdir(tmp_path)
    environment, safety = dict(os.environ), wds.config.safety
    yield tmp_path
    os.environ.clear()
    os.environ.update(environment)
    safety.enforce = safety.weights_only = None


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("path", DOCUMENTS, ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS])
def test_every_python_block_runs(path, dataset, monkeypatch):
    monkeypatch.setattr("sys.stdout", io.StringIO())
    namespace = {"__name__": "document"}
    for line, reason, source in blocks(path):
        if reason is None:
            code = compile("\n" * line + source, str(path), "exec")
            exec(code, namespace)
    namespace.clear()


def test_every_public_name_that_a_document_uses_exists():
    for path in DOCUMENTS:
        for name in re.findall(r"\bwds\.([A-Za-z_]\w*)", path.read_text()):
            assert hasattr(wds, name), f"{path.name}: wds.{name}"


SETTINGS = ROOT / "docs" / "settings.md"


def settings_table():
    """The table of the settings page, made from the table that is used."""
    for variable in VARIABLES.values():
        default = dict(variable.default) if isinstance(variable.default, Mapping) else variable.default
        meaning = variable.meaning.replace("|", "\\|")
        yield f"| `{variable.name}` | {meaning} | {'–' if default is None or default == '' else f'`{default!r}`'} |"


def test_every_environment_variable_is_documented():
    """`python tests/test_docs.py` writes the table anew."""
    rows = [line for line in SETTINGS.read_text().splitlines() if line.startswith("| `")]
    assert rows == list(settings_table())


def test_no_document_names_a_variable_that_nobody_reads():
    text = "\n".join(path.read_text() for path in DOCUMENTS)
    named = set(re.findall(r"\b(?:WDS|GOPEN)_[A-Z_]*[A-Z]\b", text))
    assert named - set(VARIABLES) <= {"WDS_NAME", "WDS_BUCKET"}


def test_links_between_documents_lead_somewhere():
    for path in DOCUMENTS:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


if __name__ == "__main__":
    lines = SETTINGS.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| `"))
    others = [line for line in lines if not line.startswith("| `")]
    SETTINGS.write_text("\n".join([*others[:first], *settings_table(), *others[first:]]) + "\n")
