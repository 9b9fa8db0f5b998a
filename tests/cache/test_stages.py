"""The public library's cache objects, with its defects repaired."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from webdataset import cache as room
from webdataset import config, stores
from webdataset.cache import FileCache, LRUCleanup, StreamingOpen, check_tar_format, download, get_filetype
from webdataset.errors import ObsoleteException, ShardNotFound
from webdataset.handlers import ignore_and_continue, ignore_and_stop
from webdataset.testing import Fault, FaultServer, Schedule


def empty_tar():
    out = io.BytesIO()
    tarfile.open(fileobj=out, mode="w").close()
    return out.getvalue()


@pytest.fixture
def server():
    with FaultServer() as server:
        yield server
        stores.close_connections()


@pytest.fixture
def urls(server):
    return [server.add(f"{n}.tar", empty_tar()) for n in range(3)]


def contents(shards):
    found = []
    for shard in shards:
        with shard["stream"] as stream:
            found.append((shard["url"], stream.read()))
    return found


def test_a_cache_is_a_stage(tmp_path, urls):
    cache = FileCache(tmp_path / "c")
    for _ in range(2):
        assert contents(cache(iter(urls))) == [(url, empty_tar()) for url in urls]
    shards = list(cache({"url": url, "number": n} for n, url in enumerate(urls)))
    assert [shard["number"] for shard in shards] == [0, 1, 2]
    for shard in shards:
        assert Path(shard["local_path"]).read_bytes() == empty_tar()
        shard["stream"].close()


def test_local_files_are_not_cached(tmp_path):
    path = tmp_path / "a#1.tar"
    path.write_bytes(empty_tar())
    cache = FileCache(tmp_path / "c")
    assert cache.get_file(str(path)) == str(path)
    (shard,) = cache([str(path)])
    assert shard["local_path"] == str(path)
    shard["stream"].close()
    assert not (tmp_path / "c").exists()


def test_D24_stop_stops_and_the_handler_is_asked_once(tmp_path, urls, server):
    asked = []

    def counting(answer):
        return lambda error: asked.append(error) or answer

    wanted = [urls[0], server.url("missing.tar"), urls[2]]
    assert [url for url, _ in contents(FileCache(tmp_path / "c", handler=counting(True))(wanted))] == [urls[0], urls[2]]
    assert [url for url, _ in contents(FileCache(tmp_path / "c", handler=counting(False))(wanted))] == [urls[0]]
    assert len(asked) == 2
    assert len(contents(StreamingOpen(handler=ignore_and_continue)(wanted))) == 2
    assert len(contents(StreamingOpen(handler=ignore_and_stop)(wanted))) == 1
    with pytest.raises(ShardNotFound):
        contents(StreamingOpen()(wanted))


def test_D24_retries_do_not_depend_on_the_handler(tmp_path, server):
    url = server.add("a.tar", empty_tar(), Schedule((Fault(600, "503"), Fault(700, "reset"))))
    assert contents(FileCache(tmp_path / "c")([url])) == [(url, empty_tar())]


def test_D28_the_environment_and_the_home_directory_are_honoured(tmp_path, urls, monkeypatch):
    monkeypatch.setenv("WDS_CACHE", str(tmp_path / "here"))
    monkeypatch.setenv("WDS_CACHE_SIZE", "25000")
    cache = FileCache()
    assert cache.cache_dir == str(tmp_path / "here")
    contents(cache(urls))
    assert len([name for name in os.listdir(tmp_path / "here") if name.endswith(".tar")]) == 2
    monkeypatch.setenv("HOME", str(tmp_path))
    assert FileCache("~/there").cache_dir == str(tmp_path / "there")
    assert room.default_cache_dir == str(tmp_path / "here")
    assert room.default_cache_size == 25000
    assert room.verbose_cache is False
    with pytest.raises(AttributeError):
        _ = room.nonsense


def test_D28_url_to_name_and_verbose_are_honoured(tmp_path, urls, monkeypatch, caplog):
    monkeypatch.setenv("WDS_VERBOSE_CACHE", "1")
    cache = FileCache(tmp_path, url_to_name=lambda url: "x-" + url.rsplit("/", 1)[1])
    with caplog.at_level("INFO"):
        contents(cache(urls))
    assert sorted(p.name for p in tmp_path.glob("x-*")) == ["x-0.tar", "x-1.tar", "x-2.tar"]
    assert "fetching" in caplog.text


def test_D17_secure_mode_holds_in_the_stages(tmp_path, monkeypatch):
    (tmp_path / "a.tar").write_bytes(empty_tar())
    monkeypatch.setitem(vars(config.safety), "enforce", True)
    for stage in (StreamingOpen(), FileCache(tmp_path / "c")):
        with pytest.raises(ValueError, match="cannot open local files"):
            contents(stage([str(tmp_path / "a.tar")]))


def test_the_public_names():
    assert room.url_to_cache_name("http://h/a/b.tar?x=1") == "b.tar"
    assert room.url_to_cache_name("gs://b") == ""
    assert room.url_to_cache_name("pipe:cat /a/b.tar") == "pipe%3Acat%20%2Fa%2Fb.tar"
    with pytest.raises(AssertionError):
        room.url_to_cache_name(3)
    with pytest.raises(ObsoleteException, match="ALLOW_OBSOLETE"):
        room.pipe_cleaner("pipe:curl http://h/a.tar")


def test_kinds_of_files(tmp_path):
    import bz2
    import gzip
    import lzma

    for pack in (bytes, gzip.compress, bz2.compress, lzma.compress):
        path = tmp_path / "x"
        path.write_bytes(pack(empty_tar()))
        assert check_tar_format(str(path)), pack
    path.write_bytes(b"")
    assert get_filetype(str(path)) == f"{path}: empty"
    assert not check_tar_format(str(path))
    path.write_bytes(b"hello" * 300)
    assert not check_tar_format(str(path))


def test_old_tars_without_the_word_ustar(tmp_path):
    info = tarfile.TarInfo("a")
    header = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    header[257:] = bytes(255)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "x").write_bytes(bytes(header) + bytes(1024))
    assert check_tar_format(str(tmp_path / "x"))


def test_cleaning_a_directory(tmp_path):
    for n in range(20):
        (tmp_path / f"{n}").write_bytes(bytes(1000))
        os.utime(tmp_path / f"{n}", (n, n))
    cleaner = LRUCleanup(tmp_path, cache_size=20_000, interval=None)
    cleaner.cleanup()
    assert len(os.listdir(tmp_path)) == 20
    cleaner.cache_size = 10_000
    cleaner.cleanup()
    assert sorted(map(int, os.listdir(tmp_path))) == list(range(10, 20))


def test_D26_a_file_that_cannot_be_deleted_does_not_stop_the_cleaning(tmp_path, monkeypatch):
    for n in range(4):
        (tmp_path / f"{n}").write_bytes(bytes(1000))
        os.utime(tmp_path / f"{n}", (n, n))
    real = os.unlink

    def stubborn(path):
        return os.rmdir(path) if path.endswith("/0") else real(path)  # rmdir of a file is an OSError

    monkeypatch.setattr("webdataset.cache._cleanup.os.unlink", stubborn)
    LRUCleanup(str(tmp_path), cache_size=2000).cleanup()
    assert sorted(os.listdir(tmp_path)) == ["0", "3"]


def test_download_is_atomic_and_can_show_progress(tmp_path, server, capsys, monkeypatch):
    url = server.add("a.tar", empty_tar())
    download(url, tmp_path / "a", verbose=True)
    assert (tmp_path / "a").read_bytes() == empty_tar()
    assert "10.2k" in capsys.readouterr().err
    monkeypatch.setenv("WDS_RETRIES", "0")
    bad = server.add("b.tar", empty_tar(), Schedule((Fault(600, "gone"),)))
    with pytest.raises(OSError):
        download(bad, tmp_path / "b")
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("shown", ["0", "1"])
def test_a_shard_that_comes_into_the_cache_can_show_progress(tmp_path, server, capsys, monkeypatch, shown):
    monkeypatch.setenv("WDS_PROGRESS", shown)
    url = server.add("shown.tar", empty_tar())
    for shard in FileCache(cache_dir=str(tmp_path))([url]):
        with shard["stream"] as stream:
            assert stream.read() == empty_tar()
    assert ("shown.tar" in capsys.readouterr().err) == (shown == "1")
