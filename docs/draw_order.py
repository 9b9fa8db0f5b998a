"""Draws the pictures of docs/explanation/order.md from real epochs: `python docs/draw_order.py`; a test compares them."""

from __future__ import annotations

from pathlib import Path

import webdataset as wds
from webdataset import world
from webdataset.testing import make_shard

HERE = Path(__file__).parent / "explanation"
SHARDS, SAMPLES = 8, 25
STYLE = (
    "<style>text{font:12px sans-serif;fill:#555}rect.frame{fill:none;stroke:#999}"
    "circle{fill:#2a7ae2}@media(prefers-color-scheme:dark){text{fill:#bbb}}</style>"
)
COLOURS = ("#2a7ae2", "#e2632a", "#3aa655", "#8e44ad")


def shards() -> list[str]:
    return [
        make_shard(
            f"memory://draw-order/{shard}.tar",
            [{"__key__": f"{shard * SAMPLES + n:06d}", "txt": "x"} for n in range(SAMPLES)],
        )
        for shard in range(SHARDS)
    ]


def order(urls: list[str], **options: object) -> list[int]:
    with wds.WebDataset(urls, index=True, seed=1, **options) as dataset:
        return [int(sample["__key__"]) for sample in dataset]


def windows(urls: list[str]) -> str:
    """Position in the epoch against position in storage, for four windows."""
    panels = {
        "storage order": order(urls),
        "shardshuffle=True (window 1)": order(urls, shardshuffle=True),
        "order=3": order(urls, order=3),
        "order='random' (all)": order(urls, order="random"),
    }
    side, parts = 180, [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {4 * 200} 220">{STYLE}']
    for number, (title, positions) in enumerate(panels.items()):
        left = number * 200 + 10
        parts.append(f'<text x="{left}" y="14">{title}</text>')
        parts.append(f'<rect class="frame" x="{left}" y="20" width="{side}" height="{side}"/>')
        total = SHARDS * SAMPLES
        for x, y in enumerate(positions):
            parts.append(
                f'<circle cx="{left + x * side / total:.1f}" cy="{20 + side - y * side / total:.1f}" r="1.4"/>'
            )
        parts.append(f'<text x="{left}" y="215">position in the epoch →</text>')
    return "\n".join([*parts, "</svg>\n"])


def topologies(urls: list[str]) -> str:
    """Which rank and worker reads each position of one epoch: the row of samples is always the same."""
    row, parts = 46, [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {3 * 46 + 20}">{STYLE}']
    for number, ranks in enumerate((1, 2, 4)):
        top = 20 + number * row
        parts.append(f'<text x="0" y="{top - 4}">{ranks} rank{"s" * (ranks > 1)}: batches of 5, 40 positions</text>')
        owner: dict[str, int] = {}
        for rank in range(ranks):
            with world.pretend(world.World(rank=rank, ranks=ranks)):
                dataset = wds.WebDataset(urls, index=True, seed=1, order="random").batched(5)
                owner |= {key: rank for batch in dataset for key in batch["__key__"]}
        for position, sample in enumerate(order(urls, order="random")[:40]):
            colour = COLOURS[owner[f"{sample:06d}"]]
            parts.append(f'<rect x="{position * 20}" y="{top}" width="19" height="20" fill="{colour}"/>')
            parts.append(
                f'<text x="{position * 20 + 1}" y="{top + 14}" style="fill:white;font-size:9px">{sample}</text>'
            )
    return "\n".join([*parts, "</svg>\n"])


def pictures() -> dict[Path, str]:
    urls = shards()
    return {HERE / "windows.svg": windows(urls), HERE / "topologies.svg": topologies(urls)}


if __name__ == "__main__":
    for path, text in pictures().items():
        path.write_text(text)
