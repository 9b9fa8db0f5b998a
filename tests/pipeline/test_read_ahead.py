import pytest

import webdataset as wds
from webdataset.cache import OpenAhead
from webdataset.errors import SpecError
from webdataset.testing import LoopbackServer, assert_resumes_everywhere, make_shard


@pytest.fixture
def web(tmp_path):
    for shard in range(5):
        samples = [{"__key__": f"{shard}-{n}", "cls": 10 * shard + n} for n in range(6)]
        make_shard(tmp_path / f"a-{shard}.tar", samples)

    def respond(handler):
        data = (tmp_path / handler.path.lstrip("/")).read_bytes()
        start = int((handler.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        handler.send_header("Content-Length", str(len(data) - start))
        handler.end_headers()
        handler.wfile.write(data[start:])

    with LoopbackServer(respond) as server:
        yield server.url("a-{0..4}.tar")


def stages(dataset):
    return [type(stage) for stage in dataset.pipeline]


def test_shards_on_the_web_are_read_ahead_in_order(web):
    dataset = wds.WebDataset(web).decode()
    assert OpenAhead in stages(dataset)
    assert [sample["cls"] for sample in dataset] == [10 * shard + n for shard in range(5) for n in range(6)]


def test_local_shards_are_not_and_it_can_be_switched(web, tmp_path):
    assert OpenAhead not in stages(wds.WebDataset(str(tmp_path / "a-{0..4}.tar")))
    assert OpenAhead not in stages(wds.WebDataset(web, read_ahead=1))
    assert OpenAhead in stages(wds.WebDataset("memory://x/a.tar", read_ahead=2))


def test_it_resumes_everywhere(web):
    assert_resumes_everywhere(lambda: wds.WebDataset(web, shardshuffle=True).shuffle(5).decode().to_tuple("cls"))


def test_nothing_stays_behind_when_it_is_left_early(web):
    assert next(iter(wds.WebDataset(web)))["__key__"] == "0-0"


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "4", True])
def test_the_depth_is_a_whole_number(wrong):
    with pytest.raises(SpecError, match="read_ahead"):
        wds.WebDataset("https://host/a.tar", read_ahead=wrong)
