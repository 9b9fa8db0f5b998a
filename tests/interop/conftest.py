import io

import numpy as np
import pytest
from hypothesis import strategies as st

import webdataset as wds
from webdataset import interop

# Values of fields that formats of directories hold.
VALUES = {
    "i": st.integers(-(2**63), 2**63 - 1),
    "f": st.binary(min_size=8, max_size=8).map(lambda b: np.frombuffer(b, "<f8")[0]),
    "b": st.binary(max_size=20),
    "s": st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    "j": st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=3), st.lists(st.integers()), max_size=2
    ),
    "v": st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=300).map(lambda v: np.array(v, np.uint16)),
}


def tar_samples(*urls):
    """The samples of shards, without what the reader adds."""
    return [
        {name: value for name, value in sample.items() if name == "__key__" or name[:2] != "__"}
        for url in urls
        for sample in wds.WebDataset(str(url), shardshuffle=False)
    ]


def records_of(url, kind):
    kind = interop.find_format(kind, url)
    records = []
    for part in kind.parts(str(url)):
        with kind.open(part) as file:
            read = list(file)
            assert len(file) == len(read)
            assert all(same(file[n], record) for n, record in enumerate(read))
            assert all(same(a, b) for a, b in zip(file.records(1), read[1:], strict=True))
            records += read
    return records


def same(a, b):
    """Equal bit for bit, types included."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray | np.generic):
        return (
            isinstance(b, np.ndarray | np.generic)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and a.tobytes() == b.tobytes()
        )
    if isinstance(a, float) and isinstance(b, float):
        return np.float64(a).tobytes() == np.float64(b).tobytes()
    return type(a) is type(b) and a == b


def jpeg(seed=0, size=(8, 10)):
    from PIL import Image

    pixels = np.random.default_rng(seed).integers(0, 255, (*size, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG")
    return stream.getvalue()


@pytest.fixture
def images(tmp_path):
    """Two shards of three images with labels and notes."""
    for shard in range(2):
        with wds.TarWriter(str(tmp_path / f"images-{shard}.tar")) as sink:
            for number in range(3):
                key = f"{shard}{number}"
                sink.write({"__key__": key, "jpg": jpeg(number), "cls": number, "txt": f"nümber {number}"})
    return str(tmp_path / "images-{0..1}.tar")


def decoded(data):
    from webdataset.codecs import imagehandler

    return imagehandler("rgb8")(".jpg", data)
