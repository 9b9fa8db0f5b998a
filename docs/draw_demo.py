"""Draws docs/demo.svg, the terminal of the README, from the commands and outputs of the tutorial: `python docs/draw_demo.py`.

The tests run the tutorial and compare its outputs, and compare the picture with the tutorial.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

DOCS = Path(__file__).parent
SHOWN = ("wds create", "tar tf", "wds check", "python train.py 40", "python train.py", "torchrun", "sort")
WIDTH, LINE, SIZE = 900, 18, 13


def session() -> list[str]:
    """The lines of the terminal: some commands of the tutorial, and what they print."""
    text = (DOCS / "tutorial" / "index.md").read_text()
    lines: list[str] = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^(?=\$ )", block, flags=re.MULTILINE):
            if part.removeprefix("$ ").startswith(SHOWN):
                lines += part.rstrip("\n").splitlines()
    return [line for line in lines if not line.startswith("bash: line")]


def picture() -> str:
    lines = session()
    height = LINE * len(lines) + 34
    rows = []
    for number, line in enumerate(lines):
        kind = "command" if line.startswith("$ ") else "output"
        rows.append(f'<text class="{kind}" x="14" y="{30 + number * LINE}">{html.escape(line[:112])}</text>')
    style = (
        f"text{{font:{SIZE}px ui-monospace,monospace;white-space:pre}}"
        ".command{fill:#9ece6a;font-weight:bold}.output{fill:#c0caf5}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="Make shards, check them, train, kill, resume, resume on two processes">'
        f'<style>{style}</style><rect width="{WIDTH}" height="{height}" rx="8" fill="#1a1b26"/>\n'
        + "\n".join(rows)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    (DOCS / "demo.svg").write_text(picture())
