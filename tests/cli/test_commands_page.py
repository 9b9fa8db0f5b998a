"""docs/commands.md is complete and up to date, and every example in it and in the README runs."""

import importlib.util
import io
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import click
import pytest
from PIL import Image

from tests.cli import running
from tests.tools.datasets import write_shard
from webdataset.cli._main import VERBS, wds

ROOT = Path(__file__).parents[2]


def generator():
    spec = importlib.util.spec_from_file_location("generate_commands", ROOT / "docs" / "generate_commands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date():
    """Made anew by `python docs/generate_commands.py`."""
    assert (ROOT / "docs" / "commands.md").read_text() == generator().page()


def test_the_page_names_every_verb_and_option():
    text = (ROOT / "docs" / "commands.md").read_text()
    for verb in VERBS:
        assert f"\n## {verb}\n" in text
        command = wds.get_command(click.Context(wds), verb)
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"wds {verb} {option.opts[0]} has no help"
                assert option.opts[-1] in text


def example_of(verb):
    text = " ".join((wds.get_command(click.Context(wds), verb).help or "").split())
    return text.partition("Example: ")[2]


def picture(number):
    stream = io.BytesIO()
    Image.new("RGB", (300, 280 + number), (number, 30, 30)).save(stream, "jpeg")
    return stream.getvalue()


def samples(start, count):
    for number in range(start, start + count):
        yield {
            "__key__": f"train/{number:06d}",
            "jpeg" if number % 2 else "jpg": picture(number),
            "cls": number % 3,
            "txt": f"a text {number}",
            "json": {"width": 250 + number, "score": number * 7 % 5},
        }


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files that examples speak of."""
    folder = tmp_path_factory.mktemp("examples")
    for number in range(2):
        write_shard(folder / f"train-{number:03d}.tar", samples(number * 5, 5))
    for number, name in enumerate(("old", "all", "clean", "noisy", "train", "a", "b", "new")):
        write_shard(folder / f"{name}.tar", samples(100 * number, 5))
    write_shard(folder / "captions.tar", [{"__key__": f"train/{n:06d}", "caption": f"of {n}"} for n in range(9)])
    for name in ("cat", "dog"):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(3):
            (folder / "images" / name / f"{number}.jpg").write_bytes(picture(number))
    return folder


@pytest.fixture
def here(files, tmp_path, monkeypatch):
    """A copy of them, and `wds` on the path."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "wds"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m webdataset "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path


IN_A_SHELL = {"bench", "serve", "monitor", "view"}  # they serve, or measure: in a process of their own
ALSO = {"monitor": " --timeout 0.5"}  # no worker is there: each look waits for one


def run(line):
    """Run a line: in this process where it needs no shell, because `wds` expands patterns itself."""
    line = line.replace("{000..031}", "{000..001}")
    words = shlex.split(line)
    if "|" not in words and words[1] not in IN_A_SHELL:
        assert words[0] == "wds"
        running.run(*words[1:])
        return
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False, timeout=120
    )
    if "pip install 'webdataset[" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "reshard"])
def test_every_verb_has_an_example_that_runs(here, verb):
    example = example_of(verb)
    if isinstance(wds.get_command(click.Context(wds), verb), click.Group) and not example:
        pytest.skip(f"{verb} is a group of commands")
    assert example.startswith(f"wds {verb} ")
    run(example + ALSO.get(verb, ""))


def test_the_commands_of_the_readme_run(here):
    text = (ROOT / "README.md").read_text().partition("## On the command line")[2]
    block = re.search(r"```bash\n(.*?)```", text, re.DOTALL)[1]
    missing = {line.split()[1] for line in block.splitlines()} - set(VERBS)
    if missing:
        pytest.skip(f"there is no verb {missing} yet")
    for name in here.glob("*.tar"):
        name.unlink()
    for number in range(10):
        (here / "images" / "cat" / f"more-{number}.jpg").write_bytes(picture(number))
    for line in block.splitlines():
        run(line)
