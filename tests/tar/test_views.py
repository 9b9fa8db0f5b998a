"""Members that are views: never other bytes than copies, whoever keeps them for how long; and their memory comes back."""

import gc
import gzip
import queue
import random
import tarfile
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tar.conftest import Trickle, make_tar
from tests.tar.reading import outcome
from tests.tar.test_read import Archive, archives
from webdataset.errors import StoreError
from webdataset.tar import Windows, _byte_window, _window_memory, read_members

SIZES = [512, 1024, 8192, 10240]


def photos(count, size=3000):
    """Names and contents that differ from each other everywhere."""
    return [(f"{number:04}.jpg", payload(number, size)) for number in range(count)]


def payload(number, size):
    return random.Random(number).randbytes(size)


@pytest.fixture
def windows_made(monkeypatch):
    made, new_window = [], _window_memory.new_window

    def count(size):
        window = new_window(size)
        made.append(weakref.ref(window))
        return window

    monkeypatch.setattr(_window_memory, "new_window", count)
    return made


@st.composite
def different_members(draw):
    """An archive in which no payload has the bytes of another one."""
    sizes = draw(st.lists(st.sampled_from([0, 1, 500, 512, 513, 2000, 5000, 20_000]), min_size=20, max_size=40))
    folder = draw(st.sampled_from(["", "", "long/" * 30]))
    format = draw(st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT] + [tarfile.USTAR_FORMAT] * (folder == "")))
    members = [(f"{folder}{number:02}.jpg", payload(number, size)) for number, size in enumerate(sizes)]
    return Archive(make_tar(members, format))


@settings(max_examples=50)
@given(different_members(), st.sampled_from([1024, 8192, 8192, 10240]), st.sampled_from([None, 513]), st.randoms())
def test_views_that_are_kept_show_what_copies_have(archive, size, step, choose):
    copies = list(read_members(archive, window=size))
    views = read_members(Trickle(archive, step), window=size, windows=Windows(size))
    kept = []
    for expected, found in zip(copies, views, strict=True):
        assert (type(found.data), found.data.readonly) == (memoryview, True)
        assert found == expected
        cut = choose.randrange(3)
        kept.append((found.data[cut:], expected.data[cut:]))
        del found
        if choose.random() < 0.7:
            del kept[choose.randrange(len(kept))]
        assert all(view == copy for view, copy in kept)
    gc.collect()
    assert all(view == copy for view, copy in kept)


@given(archives(), st.sampled_from(SIZES))
def test_members_errors_and_offsets_are_those_of_copies(archive, size):
    for data in (archive, archive[: len(archive) // 2 | 1], archive.replace(b"ustar", b"vstar", 1)):
        assert outcome(Archive(data), window=size, windows=Windows(size)) == outcome(Archive(data), window=size)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_views_let_go_of_by_other_threads(tar, pack):
    expected = photos(400)
    shown, wrong = queue.Queue(20), []

    def look(choose):
        held = []
        while (item := shown.get()) is not None:
            held.append(item)
            while len(held) > 5:
                number, view = held.pop(choose.randrange(len(held)))
                if view != expected[number][1]:
                    wrong.append(number)

    threads = [threading.Thread(target=look, args=(random.Random(seed),)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for number, member in enumerate(read_members(pack(tar(expected)), window=8192, windows=Windows(8192))):
        shown.put((number, member.data))
    for _ in threads:
        shown.put(None)
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_reader_that_is_closed_leaves_its_views(tar, windows_made):
    expected = photos(30)
    reading = read_members(tar(expected), window=8192, windows=Windows(8192))
    views = [next(reading).data for _ in range(9)]
    reading.close()
    del reading
    gc.collect()
    assert [bytes(view) for view in views] == [data for _, data in expected[:9]]
    assert any(window() is not None for window in windows_made)
    del views
    assert [window() for window in windows_made] == [None] * len(windows_made)


def test_two_windows_are_enough_for_a_consumer_that_keeps_nothing(tar, windows_made):
    windows = Windows(8192)
    for _ in range(3):  # one shard after the other
        for _ in read_members(tar(photos(200)), window=8192, windows=windows):
            pass
    assert 2 <= len(windows_made) <= 3


@pytest.mark.parametrize(
    "keep",
    [
        lambda view: view[5:9],
        lambda view: view[5:][:4],
        lambda view: view.cast("H"),
        lambda view: np.frombuffer(view, np.uint8)[7:],
        lambda view: memoryview(np.frombuffer(view, np.uint8)),
        lambda view: iter(view),
    ],
)
def test_whatever_is_made_of_a_view_keeps_its_window(tar, windows_made, keep):
    reading = read_members(tar(photos(60)), window=8192, windows=Windows(8192))
    next(reading)
    view = next(reading).data
    expected = list(view), list(keep(view))
    kept = keep(view)
    del view
    for _ in reading:
        pass
    assert list(kept) == expected[1]
    assert sum(window() is not None for window in windows_made) > 0


def test_a_view_has_the_hash_of_its_bytes(tar):
    for windows in (Windows(8192), None):
        (member,) = read_members(tar([("a.bin", b"abc")]), window=8192, windows=windows)
        assert hash(member.data) == hash(b"abc")


def test_large_members_are_views_of_bytes_of_their_own(tar, windows_made):
    expected = photos(6, _byte_window.LARGE + 1000)
    found = [member.data for member in read_members(tar(expected), windows=Windows(_byte_window.WINDOW))]
    assert [bytes(view) for view in found] == [data for _, data in expected]
    assert {type(view) for view in found} == {memoryview}
    assert {type(view.obj) for view in found[2:]} == {bytes}


def test_windows_that_nobody_needs_are_not_kept_without_end(tar, windows_made):
    windows = Windows(8192)
    views = [member.data for member in read_members(tar(photos(500)), window=8192, windows=windows)]
    assert len(windows_made) > 2 * _window_memory._KEPT
    del views
    assert sum(window() is not None for window in windows_made) <= _window_memory._KEPT


def test_no_memory_for_a_window_is_an_error_of_ours():
    """A consumer that keeps views keeps their windows, until there is no memory left."""
    with pytest.raises(StoreError, match=r"not enough memory .* keep copies"):
        Windows(1 << 60).take()
