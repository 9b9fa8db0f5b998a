"""Runs the code blocks of a page in order, as a reader would, and compares what they print.

    python docs/run_page.py docs/howto/resume.md            compares
    python docs/run_page.py --write docs/howto/resume.md    also replaces outputs that differ

Blocks, by language:

    python      runs; all blocks of a page share one namespace
    console     `$ command` lines run in bash; what follows is their output
    bash, sh    runs in bash and must succeed
    text        after the comment `<!-- output -->`: what the block before printed

A comment before a block changes this: `<!-- file: train.py -->` writes the block to a file in place of running it,
`<!-- not run: needs a bucket -->` leaves it alone and says why. `...` in an output matches anything.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import io
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"(?:<!-- (?P<word>not run|file|output)(?:: (?P<detail>[^\n]+?))? -->\s*)?"
    r"^```(?P<language>[^\n]*)\n(?P<source>.*?)^```",
    re.DOTALL | re.MULTILINE,
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """One fenced block: where its source begins, what precedes it, its language and its source."""

    line: int
    start: int
    word: str | None
    detail: str | None
    language: str
    source: str

    @property
    def runs(self) -> bool:
        return self.word is None and self.language in {"python", "console", "bash", "sh"}


def blocks(text: str) -> list[Block]:
    return [
        Block(
            text[: match.start("source")].count("\n") + 1,
            match.start("source"),
            match["word"],
            match["detail"],
            match["language"],
            match["source"],
        )
        for match in BLOCK.finditer(text)
    ]


def matches(expected: str, got: str) -> bool:
    return doctest.OutputChecker().check_output(expected, got, FLAGS) or expected.split() == got.split()


def environment() -> dict[str, str]:
    """The tools of this interpreter come first; the package is the one of this repository."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    source = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PATH": path, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}


def shell(command: str) -> str:
    """Standard output and error of a command that must succeed."""
    result = subprocess.run(
        ["bash", "-c", command],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=300,
    )
    if result.returncode:
        raise AssertionError(f"exit code {result.returncode}: {command}\n{result.stdout}")
    return re.sub(r"[^\n]*\r", "", result.stdout)  # what a progress bar leaves on the screen


def commands(source: str) -> list[tuple[str, str]]:
    """(command, expected output) of every `$` line; lines that end in a backslash continue."""
    parts = re.split(r"^\$ ", source, flags=re.MULTILINE)[1:]
    found = []
    for part in parts:
        match = re.match(r"((?:[^\n]*\\\n)*[^\n]*)\n?", part)
        found.append((match[1], part[match.end() :]))
    return found


class Page:
    """Runs the blocks of one page in the current directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text()
        self.namespace: dict[str, object] = {"__name__": "__page__"}
        self.shell = shell
        self.replaced = self.text

    def run(self, *, write: bool = False) -> None:
        printed = ""
        for block in blocks(self.text):
            if block.word == "file":
                Path(block.detail).write_text(block.source)
            elif block.word == "output":
                self._compare(block, block.source, printed, printed.rstrip("\n") + "\n", write=write)
            elif block.runs:
                printed = self._run(block, write=write)
        self.namespace.clear()
        if write and self.replaced != self.text:
            self.path.write_text(self.replaced)

    def _run(self, block: Block, *, write: bool) -> str:
        if block.language == "python":
            # A page is a program of its own: what it guards runs. The namespace is no module that could be imported.
            source = block.source.replace('if __name__ == "__main__":', 'if __name__ == "__page__":')
            code = compile("\n" * (block.line - 1) + source, str(self.path), "exec", dont_inherit=True)
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(code, self.namespace)
            return stream.getvalue()
        if block.language == "console":
            got = [(command, expected, self.shell(command)) for command, expected in commands(block.source)]
            new = "".join(f"$ {command}\n{output}" for command, _, output in got).rstrip("\n") + "\n"
            if not all(matches(expected, output) for _, expected, output in got):
                self._compare(block, block.source, new, new, write=write)
            return new
        return self.shell("set -e\n" + block.source)

    def _compare(self, block: Block, expected: str, got: str, new: str, *, write: bool) -> None:
        if matches(expected, got):
            return
        if not write:
            raise AssertionError(f"{self.path}:{block.line}: expected\n{expected}\ngot\n{got}")
        self.replaced = self.replaced.replace(
            f"```{block.language}\n{expected}```", f"```{block.language}\n{new}```", 1
        )


def load_make_data() -> Callable[[Path], None]:
    """`make_data` of `docs/make_data.py`, also where `docs` is not on the path."""
    return runpy.run_path(str(Path(__file__).with_name("make_data.py")))["make_data"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("pages", nargs="+", type=Path)
    arguments = parser.parse_args()
    for page in [path.resolve() for path in arguments.pages]:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            load_make_data()(Path(folder))
            Page(page).run(write=arguments.write)
        print(f"{page.relative_to(ROOT)}: ran")


if __name__ == "__main__":
    main()
