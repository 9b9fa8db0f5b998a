"""The ImageNet example from a folder of images to a resumed run on several ranks."""

import difflib
import json
import re
import shutil
import subprocess
import sys

import pytest

import webdataset as wds

from .torchrun import EXAMPLES, alone, environment, launch

HERE = EXAMPLES / "imagenet"
PAGE = EXAMPLES.parent / "docs" / "training.md"
pytestmark = pytest.mark.timeout(900)


def verb(name, *arguments, folder, **more):
    paths = {"DATA": str(folder / "data"), "SHARDS": str(folder / "shards"), "PYTHON": sys.executable}
    result = subprocess.run(
        [str(HERE / "run"), name, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment(**paths, **more),
        timeout=250,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def make(folder, train, val, maxcount):
    verb("fake", "--train", train, "--val", val, "--size", 36, folder=folder)
    return verb("makeshards", "--maxcount", maxcount, "--jobs", 2, "--quiet", folder=folder)


def accuracy(printed):
    percent, images = re.findall(r"validation: ([\d.]+)% of (\d+) images", printed)[-1]
    return float(percent), int(images)


@pytest.mark.long
def test_makeshards(tmp_path):
    printed = make(tmp_path, 70, 20, 16)
    shards = tmp_path / "shards"
    assert "train: 70 images in 5 shards" in printed and "5 of them written now" in printed
    manifest = json.loads((shards / "imagenet-train.json").read_text())
    assert sum(shard["nsamples"] for shard in manifest["shardlist"]) == 70
    # Again: everything is there. One shard is lost, one was half written: both are made again, nothing else.
    assert "0 of them written now" in verb("makeshards", "--maxcount", 16, "--quiet", folder=tmp_path)
    whole = {path.name: path.read_bytes() for path in shards.glob("*.tar")}
    (shards / "imagenet-train-000002.tar").unlink()
    (shards / "imagenet-val-000000.tar.content").unlink()
    printed = verb("makeshards", "--maxcount", 16, "--quiet", folder=tmp_path)
    assert printed.count("1 of them written now") == 2
    assert {path.name: path.read_bytes() for path in shards.glob("*.tar")} == whole
    # Larger shards: those of the other size are gone.
    assert "train: 70 images in 2 shards" in verb("makeshards", "--maxcount", 60, "--quiet", folder=tmp_path)
    dataset = wds.WebDataset(str(shards / "imagenet-train.json"), shardshuffle=False).decode()
    samples = {sample["__key__"]: sample["cls"] for sample in dataset}
    assert len(samples) == 70 and all(int(key[1:9]) == label for key, label in samples.items())
    assert not list(shards.glob("*.part"))


def test_makeshards_has_every_image_of_an_untidy_tree(tmp_path):
    """Equal names with other extensions, dots in names, folders in a class; other files are named, not silently left out."""
    names = ["a.jpg", "a.png", "b.c.JPEG", "b_c.jpg", "deep/a.jpg", "notes.txt"]
    for split in ("train", "val"):
        for name in names:
            path = tmp_path / "data" / split / "cat" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())
    printed = verb("makeshards", "--jobs", 1, "--quiet", folder=tmp_path)
    assert "train: 5 images in 1 shards" in printed and "train: 1 files are left out" in printed, printed
    samples = list(wds.WebDataset(str(tmp_path / "shards" / "imagenet-train.json"), shardshuffle=False))
    assert len({sample["__key__"] for sample in samples}) == 5
    assert sorted(sample.get("jpg", sample.get("png")).decode() for sample in samples) == names[:-1]


def test_only_the_data_part_differs():
    orig, ours = ((HERE / name).read_text() for name in ("main_orig.py", "main_wds.py"))
    names = ("main_orig.py", "main_wds.py")
    changes = list(difflib.unified_diff(orig.splitlines(), ours.splitlines(), *names, n=0, lineterm=""))
    assert sum(1 for line in changes if re.match(r"[+-][^+-]", line)) < 70
    assert orig.partition("def train_epoch")[2] == ours.partition("def train_epoch")[2] != ""
    assert "```diff\n" + "\n".join(changes) + "\n```" in PAGE.read_text(), "the page shows another difference"


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_the_commands_of_the_page(tmp_path):
    """From a folder of images to a run that was stopped on two ranks and resumed on three, as the page says."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    block = PAGE.read_text().partition("```bash\ncd examples/imagenet\n")[2].partition("```")[0]
    printed = {}
    for line in block.splitlines():
        command = line.partition("#")[0].strip()
        if command == "./run venv":
            continue  # downloads torch; PYTHON is used in place of it
        result = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            cwd=tmp_path / "examples" / "imagenet",
            env=environment(PYTHON=sys.executable),
            timeout=1500,
        )
        stops = "--stop-after" in command
        assert (result.returncode != 0) == stops, f"{command}\n{result.stdout}{result.stderr}"
        printed[command] = result.stdout + result.stderr
    stopped, resumed = (text for command, text in printed.items() if "multi" in command)
    assert "stopped after 60 steps" in stopped
    # 3,000 images on 2 ranks are 47 steps. Of the second epoch 13 steps were made and 10 saved: 3000 - 10 x 64 = 2360 images
    # are left, 25 steps of 3 x 32, the last one padded.
    assert "epoch 1: 800 samples on this rank" in resumed and "epoch 0" not in resumed
    assert accuracy(resumed)[1] == 600
    (bench,) = (text for command, text in printed.items() if command == "./run bench")
    assert len(re.findall(r"[\d,.]+ samples/s", bench)) == 2


@pytest.mark.long
def test_training_is_resumed_in_the_middle_of_an_epoch(tmp_path):
    """Two epochs of 70 images in batches of 8: stopped at step 12, in the second epoch; resumed on two ranks."""
    make(tmp_path, 70, 20, 16)
    options = ["--shards", tmp_path / "shards", "--epochs", 2, "--workers", 0, "--batch-size", 8]
    options += ["--checkpoint", tmp_path / "checkpoint.pt", "--save-freq", 1]
    stopped = alone(HERE / "main_wds.py", *options, "--stop-after", 12, folder=tmp_path)
    assert "stopped after 12 steps" in stopped.printed and "epoch 0: 70 samples" in stopped.printed
    resumed = launch(HERE / "main_wds.py", *options, folder=tmp_path)
    resumed.check()
    # Three of the nine batches of the second epoch are done; 46 samples are left: three steps of 2 x 8.
    assert "epoch 1: 24 samples on this rank" in resumed.printed
    assert accuracy(resumed.printed)[1] == 20, "validation counts every image once"


@pytest.mark.long
def test_a_run_on_two_ranks_goes_on_with_one(tmp_path):
    """More steps are left than two ranks would have made; the learning rate follows."""
    make(tmp_path, 70, 20, 16)
    options = ["--shards", tmp_path / "shards", "--epochs", 2, "--workers", 0, "--batch-size", 8]
    options += ["--checkpoint", tmp_path / "checkpoint.pt", "--save-freq", 1]
    stopped = launch(HERE / "main_wds.py", *options, "--stop-after", 2, folder=tmp_path)
    assert "stopped after 2 steps" in stopped.printed
    resumed = alone(HERE / "main_wds.py", *options, folder=tmp_path)
    # Two steps of 2 x 8 of the first epoch are done.
    resumed_epochs = re.findall(r"epoch (\d): (\d+) samples on this rank", resumed.printed)
    assert resumed_epochs == [("0", "38"), ("1", "70")], resumed.printed


@pytest.mark.long
def test_both_programs_see_the_same_images(tmp_path):
    """Labels, decoding, resizing, normalisation, batch sizes and steps; and new augmentations in each worker and epoch."""
    make(tmp_path, 70, 20, 16)
    outcome = alone("imagenet_images.py", tmp_path / "data", tmp_path / "shards", folder=tmp_path)
    assert outcome.code == 0, outcome.printed
    seen = json.loads((tmp_path / "seen.json").read_text())
    orig, ours = seen["main_orig"], seen["main_wds"]
    assert len(orig["val"]) == 20 and len(set(orig["val"])) == 20
    assert ours["val"] == orig["val"] and ours["val_weight"] == orig["val_weight"] == 20
    assert ours["train"] == orig["train"] and len(orig["train"]) == 70
    assert ours["batches"] == orig["batches"] == [8, 8, 8, 8, 8, 8, 8, 8, 6] and ours["steps"] == orig["steps"] == 9
    assert ours["weights"] == orig["weights"], "both begin with the same network"
    # Two epochs with two workers: 140 crops, a few of which are equal by chance.
    assert ours["augmented"] > 126 and orig["augmented"] > 126


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_the_accuracy_is_that_of_the_original(tmp_path):
    """Five epochs on 3,000 images, five seeds: a mean of five is uncertain by 0.25 points (standard error)."""
    print(make(tmp_path, 3000, 2000, 250))
    results = {}
    for program, source in (
        ("main_orig.py", ["--data", tmp_path / "data"]),
        ("main_wds.py", ["--shards", tmp_path / "shards"]),
    ):
        for seed in range(5):
            options = [*source, "--epochs", 5, "--workers", 0, "--seed", seed]
            outcome = alone(HERE / program, *options, folder=tmp_path, timeout=900)
            percent, images = accuracy(outcome.printed)
            assert images == 2000
            results.setdefault(program, []).append(percent)
    orig, ours = results["main_orig.py"], results["main_wds.py"]
    print(f"main_orig {orig}, main_wds {ours}")
    assert abs(sum(orig) - sum(ours)) / 5 <= 1.0 and min(ours) > 95, (orig, ours)
