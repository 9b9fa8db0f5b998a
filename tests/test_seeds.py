"""The documents this library was born from run as they are written.

The documents are not part of the repository. `WEBDATASET_SEEDS` names a folder that holds them (default: `../shared/seeds`
beside the repository); without it these tests are skipped. Nothing in a code cell or code block is changed but its URLs:
the same shards are read as local files, through `pipe:cat`, and from a loopback web server. What a document shows as
output is what must come out here; pieces that it tells the reader to supply (`open_my_dataset`, `torchvision`, …) are
supplied by `seeds.py`. Two blocks have a typing error that no interpreter accepts; `mend`, there too, repairs the line that it
complains about.
"""

import ast
import contextlib
import io
import json
import re
import socket
import subprocess
import sys
import tarfile
import time

import numpy as np
import pytest
from PIL import Image

from tests.seeds import (
    DOCUMENTS,
    FOLDER,
    SHARDS,
    Places,
    blocks_of,
    notebook,
    prose_blocks,
    reader_supplies,
    run,
    shown,
    stand_in_transforms,
)

PER_SHARD = 24
pytestmark = [
    pytest.mark.skipif(not DOCUMENTS, reason=f"no seed documents in {FOLDER} (set WEBDATASET_SEEDS)"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]


# --- the shards --------------------------------------------------------------------------------------------------


def jpeg(height, width):
    image = np.linspace(0, 255, height * width * 3).reshape(height, width, 3).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "JPEG", quality=50)
    return buffer.getvalue()


def png(height, width):
    buffer = io.BytesIO()
    Image.fromarray(np.full((height, width, 3), 7, np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def write_tar(path, members):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def sizes_shown():
    """Heights and widths of the images that the notebook's authors saw, so that theirs and ours can be compared."""
    text = "\n".join(shown(cell) for cell in notebook() if cell["cell_type"] == "code")
    return [(int(h), int(w)) for h, w in re.findall(r"\((\d+), (\d+), 3\)", text)]


def keys_shown():
    first = next(cell for cell in notebook() if cell["cell_type"] == "code")
    return [line.removesuffix(".jpg") for line in shown(first).split() if line.endswith(".jpg")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Shards whose first samples have the keys and image sizes that the notebook shows."""
    folder = tmp_path_factory.mktemp("seeds")
    sizes, first_keys = sizes_shown(), keys_shown()
    pictures = [jpeg(*size) for size in sizes]
    uniform = jpeg(48, 64)
    for shard in range(SHARDS):
        members, plain = [], []
        for number in range(PER_SHARD):
            key = first_keys[number] if shard == 0 and number < len(first_keys) else f"{shard:08x}{number:08x}"
            notes = json.dumps([{"ImageID": key, "Source": "xclick", "Label": number}]).encode()
            members += [(f"{key}.jpg", pictures[number % len(pictures)]), (f"{key}.json", notes)]
            plain += [(f"{key}.jpg", uniform), (f"{key}.json", json.dumps({"label": number}).encode())]
        write_tar(folder / f"openimages-train-{shard:06d}.tar", members)
        write_tar(folder / f"openimages-{shard:06d}.tar", members[:4])
        write_tar(folder / f"uniform-{shard:06d}.tar", plain)
    write_tar(folder / "drawings.tar", [("d0.png", png(5, 4)), ("d0.cls", b"1"), ("d1.left.png", png(3, 2))])
    return folder


@pytest.fixture(scope="module")
def port(folder):
    """A web server of its own process: worker processes are forked from this one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = probe.getsockname()[1]
    command = [sys.executable, "-m", "http.server", str(number), "--bind", "127.0.0.1", "--directory", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", number), timeout=1):
                break
        yield number
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, module in stand_in_transforms().items():
        monkeypatch.setitem(sys.modules, name, module)
    return tmp_path


# --- the tests ---------------------------------------------------------------------------------------------------


def same_output(expected, got, places):
    """Whether a cell shows what the notebook shows, apart from what the URLs and the shuffling decide."""
    if "{'url'" in expected:
        return ast.literal_eval(got) == ast.literal_eval(places.rewrite(expected))
    if "__key__" in expected:
        wanted = [line[:32] for line in expected.splitlines() if line and "Source" not in line]
        lines = [line[:32] for line in got.splitlines()]
        return all(line in lines for line in wanted) and [name for name in wanted if "__" in name] == [
            line for line in lines if line.startswith("__key__")
        ]
    shape = re.compile(r"torch\.Size\(\[3, (\d+), (\d+)\]\)")
    if shape.match(expected) and "224" not in expected:  # a shuffled image: one of ours
        height, width = map(int, shape.match(got).groups())
        rest = r" \[\{'ImageID': '[0-9a-f]{16}', 'Source': 'xclick$" if "ImageID" in expected else "$"
        return (height, width) in sizes_shown() and re.search(rest, got.strip()) is not None
    return got.strip() == expected.strip()


@pytest.mark.parametrize("kind", ["local", "pipe", "http"])
def test_every_cell_of_the_notebook_runs_and_shows_what_it_shows(kind, folder, port, scratch):
    places = Places(kind, folder, port, scratch)
    namespace = {}
    checked = 0
    for cell in notebook():
        if cell["cell_type"] != "code":
            continue
        got = run(places.rewrite("".join(cell["source"])), namespace)
        expected = shown(cell)
        if expected and "Populating" not in expected:
            checked += 1
            assert same_output(expected, got, places), f"shown:\n{expected}\ngot:\n{got}"
    assert checked == 12
    with tarfile.open(scratch / "_temp.tar") as augmented:
        names = augmented.getnames()
    assert len(names) == 10
    assert {name.split(".")[1] for name in names} == {"cls", "png"}
    namespace.clear()


def augment_of_the_notebook(places, namespace):
    """Bring the functions that later text refers to into the namespace, as a reader of the notebook has them."""
    for cell in notebook():
        source = places.rewrite("".join(cell["source"]))
        if cell["cell_type"] == "code" and ("%pylab" in source or "preproc = " in source or "def augment" in source):
            run(source.split("dataset = ")[0], namespace)


def test_every_block_between_the_cells_runs(folder, scratch):
    places = Places("local", folder, 0, scratch)
    (scratch / "dataset").mkdir()
    (scratch / "dataset" / "x.txt").write_text("x")
    for basename in ("a0", "a1"):
        (scratch / f"{basename}.png").write_bytes(png(4, 4))
    seen = set()
    for cell in notebook():
        if cell["cell_type"] == "code":
            continue
        for language, source in blocks_of("".join(cell["source"])):
            if source.startswith("$ tar"):
                subprocess.run(["bash", "-c", source.removeprefix("$ ")], check=True)
                assert tarfile.is_tarfile(scratch / "dataset.tar")
            elif language.lower() == "python":
                seen.add(check_block(source, places))
    assert {"Processor", "Decoder", "handle_extension", "TarWriter", "dask", "ShardList", "DataLoader"} <= seen


def check_block(source, places):
    """Run one block with what its reader has, and look at what it leaves."""
    import webdataset as wds

    namespace = reader_supplies(places.folder, places.scratch)
    if "augment" in source:
        augment_of_the_notebook(places, namespace)
    run(places.rewrite(source), namespace)
    word = next(
        word
        for word in ("Processor", "handle_extension", "Decoder", "TarWriter", "dask", "DataLoader", "ShardList")
        if word in source
    )
    if word in {"Processor", "Decoder", "handle_extension"}:
        first, second = list(namespace["dataset"])
        assert first["png"].shape == (5, 4, 3)
        assert second["left.png"].shape == (3, 2, 3)
    elif word == "TarWriter":
        samples = list(wds.WebDataset("dest.tar", shardshuffle=False).decode("rgb"))
        assert len(samples) in {2, 4}
        fields = sorted(name for name in samples[0] if not name.startswith("__"))
        assert fields[0].startswith("input.")
        assert int(samples[1][fields[1]]) == 1
    elif word == "dask":
        written = [path for path in namespace["outputs"] if tarfile.is_tarfile(path)]
        assert len(written) == SHARDS
    elif word == "ShardList":
        both = [list(eval(line, namespace)) for line in source.splitlines()]
        assert both[0] == both[1] == [{"url": "dataset-000.tar"}, {"url": "dataset-001.tar"}]
    else:
        assert namespace["inputs"].shape[1:] == (3, 48, 64)
        assert "label" in namespace["outputs"]
    namespace.clear()
    return word


def test_every_block_of_the_other_documents_runs(folder, scratch):
    import webdataset as wds

    ran = 0
    for document, source in prose_blocks():
        namespace = reader_supplies(folder, scratch)
        if "seq.npy" in source:
            with wds.TarWriter("dest.tar") as sink:
                for number in range(3):
                    sink.write({"__key__": f"{number}", "seq.npy": np.arange(4) + number, "target.npy": np.ones(2)})
        run(source, namespace)
        ran += 1
        if "seq.npy" in source:
            assert [seq[0] for seq, _ in namespace["dataset"]] == [0, 1, 2]
        elif "TarWriter" in source:
            (_, (image, _)), *_ = namespace["open_my_dataset"]()
            first = next(iter(wds.WebDataset("dest.tar", shardshuffle=False).decode()))
            assert np.array_equal(first["input.npy"], image), document
        elif "dataloader" in source:
            assert namespace["inputs"].shape == (16, 3, 48, 64)
        namespace.clear()
    assert ran >= 4
