"""Folders of images, CIFAR, MNIST, zip archives, npz and HDF5: read as they are, refused with file and record."""

import gzip
import io
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest

import webdataset as wds
from tests.interop.conftest import jpeg, records_of, same, tar_samples
from webdataset import interop
from webdataset.interop import Cifar, Part


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "train"
    for name, count in (("dog", 2), ("cat", 3)):
        (root / name).mkdir(parents=True)
        for number in range(count):
            (root / name / f"{name}.{number}.JPEG").write_bytes(jpeg(number))
    (root / "cat" / ".DS_Store").write_bytes(b"x")
    return root


def test_a_folder_is_read_like_torchvision_reads_it(tree):
    records = records_of(tree, "imagefolder")
    assert [record["__key__"] for record in records] == [
        "cat/cat_0",
        "cat/cat_1",
        "cat/cat_2",
        "dog/dog_0",
        "dog/dog_1",
    ]
    assert [record["cls"] for record in records] == [b"0", b"0", b"0", b"1", b"1"]
    assert [record["class.txt"] for record in records] == [b"cat"] * 3 + [b"dog"] * 2
    assert records[4]["jpeg"] == jpeg(1)


def test_torchvision_agrees(tree):
    datasets = pytest.importorskip("torchvision.datasets", exc_type=ImportError)
    try:
        theirs = datasets.ImageFolder(str(tree)).samples
    except Exception as error:
        pytest.skip(f"torchvision does not work here: {error}")
    assert [label for _, label in theirs] == [int(record["cls"]) for record in records_of(tree, "imagefolder")]


def test_folder_to_tar_and_back(tree, tmp_path):
    done = interop.convert(str(tree), str(tmp_path / "a.tar"), source_format="imagefolder")
    assert done.samples_out == 5
    assert [sample["__key__"] for sample in tar_samples(tmp_path / "a.tar")] == [
        r["__key__"] for r in records_of(tree, "imagefolder")
    ]
    interop.convert(str(tmp_path / "a.tar"), str(tmp_path / "back"), target_format="imagefolder")
    again = records_of(tmp_path / "back", "imagefolder")
    assert same(again, records_of(tree, "imagefolder"))
    assert sorted(os.listdir(tmp_path)) == ["a.idx", "a.tar", "back", "train"]


def test_files_with_one_stem_stay_two_samples(tree):
    (tree / "cat" / "cat.0.png").write_bytes(b"\x89PNG")
    keys = [record["__key__"] for record in records_of(tree, "imagefolder")]
    assert keys[:2] == ["cat/cat_0_jpeg", "cat/cat_0_png"]
    assert len(set(keys)) == 6


def test_a_class_folder_without_images_is_an_error(tree):
    (tree / "empty").mkdir()
    with pytest.raises(wds.FormatError, match=r"the class folder 'empty' has no images – .*train/empty"):
        records_of(tree, "imagefolder")
    (tree / "empty" / "notes.txt").write_text("x")
    with pytest.raises(wds.FormatError, match="the class folder 'empty' has no images"):
        records_of(tree, "imagefolder")
    with pytest.raises(wds.SpecError, match="is not a directory"):
        records_of(tree / "nowhere", "imagefolder")


def test_a_folder_is_published_whole_or_not_at_all(tmp_path):
    good = {"__key__": "a", "jpg": jpeg(), "cls": 1}
    for bad in (
        {"__key__": "b", "cls": 1},
        {"__key__": "b", "jpg": jpeg(), "class.txt": "../up"},
        {"__key__": "a", "jpg": b"", "cls": 1},
    ):
        with pytest.raises(wds.EncodingError):
            interop.write([good, bad], str(tmp_path / "out"), "imagefolder")
        assert os.listdir(tmp_path) == []
    interop.write([good], str(tmp_path / "out"), "imagefolder")
    assert (tmp_path / "out" / "1" / "a.jpg").read_bytes() == jpeg()
    with pytest.raises(wds.StoreError, match="exists already"):
        interop.write([good], str(tmp_path / "out"), "imagefolder")


# --- CIFAR and MNIST -------------------------------------------------------------------------------------------------


def python2_pickle(batch):
    """As Python 2 wrote it: byte strings as opcodes that Python 3 reads as text."""
    out = io.BytesIO()

    class Pickler(pickle._Pickler):
        dispatch = dict(pickle._Pickler.dispatch)

        def save_bytes(self, data):
            self.write(pickle.BINSTRING + struct.pack("<i", len(data)) + data)
            self.memoize(data)

        def save_text(self, text):
            self.save_bytes(text.encode("latin-1"))

        dispatch[bytes] = save_bytes
        dispatch[str] = save_text

    Pickler(out, 2).dump(batch)
    return out.getvalue()


@pytest.fixture
def cifar(tmp_path):
    rng = np.random.default_rng(0)
    for number in (1, 2):
        batch = {
            "data": rng.integers(0, 255, (4, 3072), dtype=np.uint8),
            "labels": [3, 1, 4, number],
            "filenames": [f"frog_s_{number}{k}.png" for k in range(4)],
            "batch_label": "training batch",
        }
        (tmp_path / f"data_batch_{number}").write_bytes(python2_pickle(batch))
    (tmp_path / "batches.meta").write_bytes(b"")
    return tmp_path


def test_cifar_is_read(cifar):
    records = records_of(cifar, "cifar")
    assert [record["label"] for record in records] == [3, 1, 4, 1, 3, 1, 4, 2]
    assert records[0]["__key__"] == "frog_s_10"
    raw = np.random.default_rng(0).integers(0, 255, (4, 3072), dtype=np.uint8)
    assert same(records[1]["image"], np.ascontiguousarray(raw[1].reshape(3, 32, 32).transpose(1, 2, 0)))


def test_cifar_to_tar_keeps_every_pixel(cifar, tmp_path):
    done = interop.convert(str(cifar), str(tmp_path / "a.tar"), source_format="cifar")
    assert str(done.mapping) == "image:png,label:cls,__key__:__key__"
    samples = list(wds.WebDataset(str(tmp_path / "a.tar"), shardshuffle=False).decode("rgb8"))
    assert all(
        same(sample["png"], record["image"]) for sample, record in zip(samples, records_of(cifar, "cifar"), strict=True)
    )


class Bomb:
    def __reduce__(self):
        return (os.system, ("echo gotcha",))


def test_a_cifar_pickle_runs_no_code(tmp_path):
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({"data": Bomb()}))
    with pytest.raises(wds.UnsafeContent, match="data_batch_1"):
        records_of(tmp_path, "cifar")


@pytest.mark.parametrize(
    "data", [b"", b"\x80\x02}", pickle.dumps([1]), pickle.dumps({"data": np.zeros((2, 3), np.uint8)})]
)
def test_a_damaged_cifar_batch_is_an_error(tmp_path, data):
    (tmp_path / "data_batch_1").write_bytes(data)
    with pytest.raises(wds.FormatError, match="data_batch_1"):
        records_of(tmp_path, Cifar())


def idx(array):
    return struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_mnist_is_read(tmp_path, suffix):
    images = np.arange(5 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(5, 28, 28)
    pack = gzip.compress if suffix else bytes
    (tmp_path / f"train-images-idx3-ubyte{suffix}").write_bytes(pack(idx(images)))
    (tmp_path / f"train-labels-idx1-ubyte{suffix}").write_bytes(pack(idx(np.arange(5, dtype=np.uint8))))
    records = records_of(tmp_path, "mnist")
    assert [record["label"] for record in records] == list(range(5))
    assert all(same(record["image"], image) for record, image in zip(records, images, strict=True))
    assert len(records_of(tmp_path / f"train-images-idx3-ubyte{suffix}", None)) == 5
    (tmp_path / f"train-labels-idx1-ubyte{suffix}").write_bytes(pack(idx(np.arange(4, dtype=np.uint8))))
    with pytest.raises(wds.FormatError, match="there are 5 images and 4 labels"):
        records_of(tmp_path, "mnist")
    (tmp_path / f"train-images-idx3-ubyte{suffix}").write_bytes(pack(idx(images)[:-1]))
    with pytest.raises(wds.FormatError, match=r"expected 3936 bytes, got 3935 – .*train-images"):
        records_of(tmp_path, "mnist")


# --- zip, npz, HDF5 --------------------------------------------------------------------------------------------------


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def test_a_zip_of_samples_is_read(tmp_path):
    members = [("a/0.jpg", jpeg()), ("a/0.cls", b"7"), ("README", b"x"), ("a/1.JPG", jpeg(1)), ("a/1.seg.png", b"p")]
    path = zipped(tmp_path / "a.zip", members)
    first, second = records_of(path, None)
    assert first == {"__key__": "a/0", "jpg": jpeg(), "cls": b"7"}
    assert second == {"__key__": "a/1", "jpg": jpeg(1), "seg.png": b"p"}
    interop.convert(str(path), str(tmp_path / "a.tar"))
    assert tar_samples(tmp_path / "a.tar") == [first, second]


def test_a_bad_zip_is_an_error(tmp_path):
    path = zipped(tmp_path / "a.zip", [("0.txt", b"a"), ("1.txt", b"b"), ("0.cls", b"0")])
    with pytest.raises(wds.SplitSample, match=r"sample 0, member 0.cls, .*a.zip"):
        records_of(path, None)
    path = zipped(tmp_path / "a.zip", [("0.txt", b"hello" * 100)])
    data = bytearray(path.read_bytes())
    data[36] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(wds.FormatError, match=r"record 0: the member 0.txt cannot be read: .* – .*a.zip, byte 0"):
        records_of(path, None)
    path.write_bytes(data[:50])
    with pytest.raises(wds.FormatError, match="not a zip archive"):
        records_of(path, None)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_rows_are_read(tmp_path, save):
    rng = np.random.default_rng(0)
    arrays = {"x": rng.random((7, 2, 3), np.float32), "y": np.arange(7), "s": np.array(list("abcdefg"))}
    save(tmp_path / "a.npz", **arrays)
    records = records_of(tmp_path / "a.npz", None)
    assert all(same(record["x"], row) for record, row in zip(records, arrays["x"], strict=True))
    assert [record["y"] for record in records] == list(range(7))
    assert "".join(record["s"] for record in records) == "abcdefg"
    np.save(tmp_path / "a.npy", arrays["x"])
    assert same(records_of(tmp_path / "a.npy", None)[3], {"npy": arrays["x"][3]})


def test_a_bad_npz_is_an_error(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros(3), y=np.zeros(4))
    with pytest.raises(wds.FormatError, match=r"do not have equally many rows: \{'x': 3, 'y': 4\}"):
        records_of(path, None)
    np.savez(path, x=np.array([object()]))
    with pytest.raises(wds.UnsafeContent, match="pickled objects"):
        records_of(path, None)
    np.savez(path, x=np.zeros((3, 4), order="F"))
    with pytest.raises(wds.FormatError, match="stored by columns"):
        records_of(path, None)
    path.write_bytes(b"no")
    with pytest.raises(wds.FormatError, match="not an npz archive"):
        records_of(path, None)


def test_hdf5_rows_are_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    x = rng.random((3000, 4), np.float32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = x
        file.create_dataset("meta/label", data=np.arange(3000, dtype=np.uint8))
        file.create_dataset("meta/text", data=[f"tëxt {n}" for n in range(3000)])
    with interop.HDF5().open(Part(str(tmp_path / "a.h5"))) as file:
        records = list(file)
        assert len(file) == 3000
        assert same(file[2999], records[2999])
    assert all(same(record["x"], row) for record, row in zip(records, x, strict=True))
    assert same(records[300]["meta/label"], np.uint8(300 % 256))
    assert records[2999]["meta/text"] == "tëxt 2999"
    done = interop.convert(str(tmp_path / "a.h5"), str(tmp_path / "a.tar"))
    assert str(done.mapping) == "meta/label:cls,meta/text:meta_text.txt,x:x.npy"
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["odd"] = np.zeros(3)
    with pytest.raises(wds.FormatError, match="do not have equally many rows"):
        records_of(tmp_path / "a.h5", None)
    (tmp_path / "a.h5").write_bytes(b"no")
    with pytest.raises(wds.FormatError, match="not an HDF5 file"):
        records_of(tmp_path / "a.h5", None)


PAIR = np.dtype([("a", "<i4"), ("b", "<f8")])


@pytest.mark.parametrize(
    ("rows", "dtype", "field", "first"),
    [
        ([True, False], None, "a.npy", np.True_),
        ([b"ab", b"c"], "S2", "a.txt", "ab"),
        ([["ü", "b"], ["c", "d"]], "text", "a.json", ["ü", "b"]),
        ([(1, 2.5), (3, 4.5)], PAIR, "a.npy", np.array((1, 2.5), PAIR)),
        ([b"\0a", b"b\0"], "V2", "a.bin", b"\0a"),
        ([1, 2], ">i4", "a.cls", 1),
    ],
)
def test_hdf5_rows_of_every_type_are_kept(tmp_path, rows, dtype, field, first):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        text = dtype == "text"
        file.create_dataset(
            "a", data=np.array(rows, object if text else dtype), dtype=h5py.string_dtype() if text else None
        )
    interop.convert(str(tmp_path / "a.h5"), str(tmp_path / "a.tar"))
    (sample, _) = wds.WebDataset(str(tmp_path / "a.tar"), shardshuffle=False).decode()
    assert np.array_equal(sample[field], first)
    assert type(sample[field]) is type(first) or sample[field].dtype == first.dtype


def test_hdf5_text_that_is_no_text_is_an_error(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("t", data=np.array([b"\xff", b"b"], object), dtype=h5py.string_dtype())
    with pytest.raises(wds.FormatError, match=r"record 0: the dataset t is damaged: 'utf-8' codec .* – .*a\.h5"):
        records_of(tmp_path / "a.h5", None)
