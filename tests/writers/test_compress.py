"""Compressed archives: chosen by name or on request, the same bytes every time, readable by other programs."""

import bz2
import gzip
import lzma
import shutil
import subprocess
import sys

import pytest

from webdataset.errors import MissingDependency, SpecError
from webdataset.writers import TarWriter
from webdataset.writers._compress_archive import find_compression, open_compressor
from webdataset.decompress import load_zstd

zstd = load_zstd("to test")


def unzstd(data):
    return zstd.decompress(data)


UNPACK = {"gz": gzip.decompress, "bz2": bz2.decompress, "xz": lzma.decompress, "zst": unzstd}
SAMPLES = [{"__key__": f"{number:04d}", "txt": "hello " * 1000} for number in range(50)]


def write(path, **options):
    with TarWriter(path, **options) as sink:
        for sample in SAMPLES:
            sink.write(sample)
    return path.read_bytes()


@pytest.mark.parametrize("kind", UNPACK)
def test_a_compressed_archive_is_the_plain_one_compressed(tmp_path, kind):
    plain = write(tmp_path / "a.tar")
    by_name, asked_for = write(tmp_path / f"a.tar.{kind}"), write(tmp_path / "b.tar", compress=kind)
    assert len(by_name) < len(plain) / 10
    assert UNPACK[kind](by_name) == plain
    assert by_name == asked_for, "neither name nor time may be in the bytes"


@pytest.mark.parametrize("kind", UNPACK)
def test_gnu_tar_reads_it(tmp_path, kind):
    program = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}[kind]
    if not shutil.which("tar") or not shutil.which(program):
        pytest.skip(f"no {program} here")
    write(tmp_path / f"a.tar.{kind}")
    listing = subprocess.run(["tar", "-tf", tmp_path / f"a.tar.{kind}"], capture_output=True, check=True)
    assert listing.stdout.decode().split() == [f"{number:04d}.txt" for number in range(50)]


@pytest.mark.parametrize(
    ("target", "compress", "kind"),
    [
        ("x.tar", None, None),
        ("x.tgz", None, "gz"),
        ("x.tar.gz", None, "gz"),
        ("x.tar.gz", False, None),
        ("x.tar", True, "gz"),
        ("x.tar.gz", "xz", "xz"),
        ("x.tar.zst", None, "zst"),
        (object(), None, None),
        (object(), "bz2", "bz2"),
    ],
)
def test_who_decides(target, compress, kind):
    assert find_compression(target, compress) == kind
    assert TarWriter.tarmode(target, compress) == f"w|{kind or ''}"


@pytest.mark.parametrize("compress", ["lz4", "", 3, "GZ"])
def test_unknown_compressions_are_refused(tmp_path, compress):
    with pytest.raises(SpecError, match="compress="):
        TarWriter(tmp_path / "a.tar", compress=compress)
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named(monkeypatch):
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependency, match=r"webdataset\[compression\]"):
        open_compressor("zst")
