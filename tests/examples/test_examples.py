"""Every example runs, small, as a reader would start it, and prints what it promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py") if "__main__" in path.read_text())


def run(script, *arguments, folder, timeout=500):
    """The output of an example; it must not complain either."""
    environment = {**os.environ, "PYTHONWARNINGS": "error", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=timeout)
    assert result.returncode == 0, result.stderr
    return result.stdout


PROMISES = {
    "anywhere.py": "60 samples from http://",
    "augment_offline.py": "180 samples, 000000-0 to 000059-2",
    "custom_decoder.py": "walk4: class 0",
    "numpy_training.py": r"([7-9]\d|100)\.\d% named rightly",
    "own_stage.py": "→  000011",
    "rebatch.py": "after rebatching",
    "resampled_epochs.py": "epoch 2: 300 samples in 12 batches",
    "two_forms.py": "both forms gave the same batches",
}


def test_every_script_is_run_here():
    assert sorted([*PROMISES, "demo.py", "folder_to_shards.py", "shuffle_quality.py"]) == SCRIPTS


@pytest.mark.parametrize("script", PROMISES)
def test_example(script, tmp_path):
    assert re.search(PROMISES[script], run(script, folder=tmp_path))
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"


def test_demo_learns(tmp_path):
    printed = run("demo.py", "--samples", 500, "--epochs", 4, "--workers", 0, folder=tmp_path)
    assert re.search(r"[\d,]+ images/s", printed)
    assert float(re.search(r"([\d.]+)% of the validation images", printed)[1]) > 40, "chance is 10%"
    assert len(list((tmp_path / "demo-data").glob("train-*.tar"))) == 8
    assert "What to try next" in printed


SHUFFLES = ["full shuffle", "global order", "no shuffle", "shards", "shards, buffer 20", "resampled"]


@pytest.mark.long
def test_shuffle_quality(tmp_path):
    small = ["--samples", 500, "--classes", 3, "--epochs", 1, "--seeds", 2, "--buffers", 20, "--out", "plot.svg"]
    printed = run("shuffle_quality.py", *small, "--test-samples", 50, "--pairs", 3, folder=tmp_path).splitlines()
    assert [line.partition("  ")[0] for line in printed[:-1]] == SHUFFLES
    assert [line.endswith("3 seeds") for line in printed[:-1]] == [True, True, False, False, False, False]
    assert re.fullmatch(r"global order - full shuffle: [+-][\d.]+ points ± [\d.]+", printed[-1])
    assert (tmp_path / "plot.svg").stat().st_size > 1000


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_the_global_order_is_as_good_as_a_full_shuffle(tmp_path):
    """The claim of docs/explanation/shuffling.md; 24 pairs give the difference a standard error below 0.1 points."""
    printed = run("shuffle_quality.py", "--seeds", 2, "--buffers", 100, folder=tmp_path, timeout=2900)
    percent = {name: float(value) for name, value in re.findall(r"^(\w[\w ,]*?) +([\d.]+)%", printed, re.MULTILINE)}
    assert percent["no shuffle"] < 30 and percent["shards, buffer 100"] < percent["global order"] - 10
    difference, error = map(float, re.search(r"full shuffle: ([+-][\d.]+) points ± ([\d.]+)", printed).groups())
    assert error < 0.1 and difference >= -0.2 - 2 * error, printed


def test_folder_to_shards(tmp_path):
    for name, files in {"cat": ["a.jpg", "b.v2.JPG"], "dog": ["c.png", "notes.txt"]}.items():
        (tmp_path / "images" / name).mkdir(parents=True)
        for file in files:
            (tmp_path / "images" / name / file).write_bytes(file.encode())
    printed = run("folder_to_shards.py", "images", "out", "--maxcount", 2, "--filekey", folder=tmp_path)
    assert printed == "3 images of 2 classes in out/shard-{000000..000001}.tar\n"
    from webdataset import WebDataset

    samples = {
        sample["__key__"]: sample for sample in WebDataset(f"{tmp_path}/{printed.split()[-1]}", shardshuffle=False)
    }
    assert {key: sample["cls"] for key, sample in samples.items()} == {"a": b"0", "b_v2": b"0", "c": b"1"}
    assert samples["b_v2"]["jpg"] == b"b.v2.JPG"
