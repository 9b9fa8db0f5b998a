"""The documents this library was born from: their cells and blocks, how to run them, and what a reader has to supply."""

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import types
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SHARDS = 8
FOLDER = Path(os.environ.get("WEBDATASET_SEEDS", Path(__file__).parents[1] / ".." / "shared" / "seeds")).resolve()
DOCUMENTS = sorted(FOLDER.glob("*.txt")) if FOLDER.is_dir() else []


# --- reading the documents ---------------------------------------------------------------------------------------


def notebook():
    """The one document that is a notebook: its cells, in order."""
    for path in DOCUMENTS:
        with contextlib.suppress(json.JSONDecodeError):
            return json.loads(path.read_text())["cells"]
    pytest.skip(f"no notebook in {FOLDER}")


def blocks_of(markdown):
    """(language, source) of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```", markdown, re.S | re.M)


def python_blocks(markdown):
    """Fenced blocks that are Python: by their label, or unlabelled and accepted by the parser."""
    for language, source in blocks_of(markdown):
        if language.lower() == "python" or (not language and _parses(source)):
            yield source


def _parses(source):
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def prose_blocks():
    """Every Python block of the documents that are not notebooks, with its document's name."""
    for path in DOCUMENTS:
        if not path.read_text().startswith("{"):
            yield from ((path.name.split("_")[0], source) for source in python_blocks(path.read_text()))


def shown(cell):
    """The output that the notebook shows for a cell."""
    parts = [output.get("text") or output.get("data", {}).get("text/plain", []) for output in cell["outputs"]]
    return "".join("".join(part) for part in parts)


# --- running them ------------------------------------------------------------------------------------------------


def mend(source):
    """Repair what keeps a block from being Python at all: a single `=` in an assertion, a bracket too many."""
    for _ in range(3):
        try:
            ast.parse(source)
        except SyntaxError as error:
            lines = source.splitlines()
            line = lines[error.lineno - 1]
            mended = re.sub(r"(?<![=<>!])=(?!=)", "==", line) if "assert" in line else line.replace(")):", "):", 1)
            lines[error.lineno - 1] = mended if mended != line else line.replace("):", ":", 1)
            source = "\n".join(lines)
    return source


def run(source, namespace):
    """Run a cell as a notebook would; the text it shows, whether printed or left as its last value."""
    if source.startswith(("%%bash", "!")):
        command = source.removeprefix("%%bash").removeprefix("!")
        return subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True).stdout
    if source.startswith("%pylab"):
        exec("from numpy import *\nimport numpy as np", namespace)
        source = source.split("\n", 1)[1]
    tree = ast.parse(mend(source))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<seed>", "exec"), namespace)
        value = eval(compile(ast.Expression(last.value), "<seed>", "eval"), namespace) if last is not None else None
    return printed.getvalue() + ("" if value is None else repr(value))


class Places:
    """The same shards in three kinds of place; `rewrite` changes the URLs of a source and nothing else."""

    def __init__(self, kind, folder, port, scratch):
        self.kind, self.folder, self.port, self.scratch = kind, folder, port, scratch

    def rewrite(self, source):
        source = re.sub(r"(?<=[\"\s])/tmp/", f"{self.scratch}/", source)
        base = f"http://127.0.0.1:{self.port}" if self.kind == "http" else str(self.folder)
        source = re.sub(r"http://storage\.googleapis\.com/[\w-]+", base, source)
        source = re.sub(r"gs://\w+", str(self.folder), source)
        source = re.sub(r"\{000000\.\.\d+\}", f"{{000000..{SHARDS - 1:06d}}}", source)
        fetched = r"pipe:cat \1 || true" if self.kind == "pipe" else r"\1"
        source = re.sub(r"pipe:curl (?:-\w )+(\S+) \|\| true", fetched, source)
        return source if self.kind == "http" else re.sub(r"curl (-\w )+", "cat ", source)


# --- what a reader has to supply ---------------------------------------------------------------------------------


def stand_in_transforms():
    """As much of `torchvision.transforms` as the notebook uses."""
    import torch

    class Compose:
        def __init__(self, steps):
            self.steps = steps

        def __call__(self, image):
            for step in self.steps:
                image = step(image)
            return image

    def normalize(mean, std):
        centre, spread = (torch.tensor(values)[:, None, None] for values in (mean, std))
        return lambda image: (image - centre) / spread

    transforms = types.ModuleType("torchvision.transforms")
    transforms.Compose = Compose
    transforms.Normalize = normalize
    transforms.RandomResizedCrop = lambda size: lambda image: image.resize((size, size), box=(8, 8, 264, 264))
    transforms.RandomHorizontalFlip = lambda: lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    transforms.ToTensor = lambda: lambda image: torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1) / 255.0
    torchvision = types.ModuleType("torchvision")
    torchvision.transforms = transforms
    return {"torchvision": torchvision, "torchvision.transforms": transforms}


def imread(stream):
    return np.asarray(Image.open(stream))


def reader_supplies(folder, scratch):
    """The names that the documents leave to the reader."""
    import braceexpand
    import torch

    import webdataset as wds

    class Dask:
        @staticmethod
        def delayed(function):
            return lambda arguments: lambda: function(*arguments)

        @staticmethod
        def compute(*jobs):
            return [job() for job in jobs]

    rng = np.random.default_rng(0)
    pairs = [(number, (rng.random((9, 7, 3), dtype=np.float32), number)) for number in range(4)]
    return {
        "wds": wds,
        "torch": torch,
        "np": np,
        "io": io,
        "imageio": types.SimpleNamespace(imread=imread),
        "mageio": types.SimpleNamespace(imread=imread),
        # A list, because the document goes over it twice.
        "braceexpand": types.SimpleNamespace(braceexpand=lambda text: list(braceexpand.braceexpand(text))),
        "dask": Dask,
        "DataPipeline": wds.DataPipeline,
        "ShardList": wds.ShardList,
        "open_my_dataset": lambda: pairs,
        "basenames": ["a0", "a1"],
        "lookup_cls": lambda basename: basename[-1].encode(),
        "url": str(folder / f"uniform-{{000000..{SHARDS - 1:06d}}}.tar"),
        "dataset": wds.DataPipeline(wds.SimpleShardList(str(folder / "drawings.tar")), wds.tarfile_to_samples()),
    }
