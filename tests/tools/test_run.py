"""bench, simulate, doctor."""

import pytest

from tests.tools.caption_shards import captions, picture, write
from webdataset import world
from webdataset.errors import SpecError
from webdataset.pipeline import WebDataset
from webdataset.testing import LoopbackServer
from webdataset.tools import State, bench, doctor, simulate
from webdataset.world import World


def test_bench_reads_and_decodes_everything_there_is(tmp_path):
    shard = write(tmp_path / "a.tar", [(f"{n}", {"jpg": picture(), "cls": n}) for n in range(40)])
    found = bench(shard, seconds=60)
    assert found.reading.samples == found.decoding.samples == 40
    assert found.reading.size == found.decoding.size > 40 * 100
    assert found.bottleneck in found.decoding.details
    assert found.decoding.advice
    assert bench(shard, decode=None, seconds=60).decoding is None


def test_bench_ends_when_it_is_told_to(tmp_path):
    shard = write(tmp_path / "a.tar", [(f"{n}", {"cls": n}) for n in range(40)])
    seen = []
    assert bench(shard, samples=7, seconds=60, advance=seen.append).reading.samples == 7
    assert sum(seen) == 14


def test_bench_names_what_is_wrong_with_the_data(tmp_path):
    shard = write(tmp_path / "a.tar", [("a", {"jpg": b"<html>"})])
    with pytest.raises(ValueError, match="cannot decode 'jpg'"):
        bench(shard)


@pytest.mark.parametrize("ranks, workers, shards", [(1, 1, 3), (2, 2, 8), (4, 2, 3), (3, 2, 7)])
def test_simulate_says_what_datasets_do(tmp_path, ranks, workers, shards):
    urls = captions(tmp_path, shards=shards, per_shard=5)
    found = simulate(urls, ranks=ranks, workers=workers, batch=2)
    assert found.samples == sum(reader.samples for reader in found.readers) == 5 * shards
    for reader in found.readers:
        with world.pretend(World(reader.rank, ranks, reader.worker, workers)):
            dataset = WebDataset(urls, shardshuffle=False, index=False, empty_check=False)
            assert sum(1 for _ in dataset) == reader.samples


def test_simulate_counts_steps():
    found = simulate(counts=[100] * 10, ranks=4, batch=10)
    assert found.steps_per_rank == (30, 30, 20, 20)
    assert not found.equal
    assert (found.indexed_steps, found.padding) == (25, 0)
    assert simulate(counts=[100] * 8, ranks=4, batch=10).equal
    assert simulate(counts=[5], ranks=4, workers=2).idle == 3
    assert simulate(counts=[5], ranks=4, workers=2).shared
    assert "shards per 256 samples" in str(found.shuffle)


def test_doctor_knows_packages_and_places(tmp_path):
    shard = captions(tmp_path, shards=1)[0]
    found = {each.name: each for each in doctor([shard, f"{tmp_path}/", f"{tmp_path}/no.tar"])}
    assert found["numpy"].state is State.GOOD
    assert found["python"].state is State.INFO
    assert found[shard].state is State.GOOD
    assert found[f"{tmp_path}/"].what.startswith("1 objects")
    assert found[f"{tmp_path}/no.tar"].state is State.BAD


def test_doctor_shows_settings_without_secrets(monkeypatch):
    monkeypatch.setenv("WDS_CACHE_SIZE", "12345")
    monkeypatch.setenv("AIS_AUTHN_TOKEN", "hush")
    monkeypatch.setenv("WDS_TIMEOUT", "soon")
    monkeypatch.setenv("WDS_HTTP_HEADERS", '{"https://h/": {"Authorization": "Bearer hush"}}')
    found = {each.name: each for each in doctor()}
    assert found["WDS_CACHE_SIZE"].what == "12345"
    assert found["WDS_TIMEOUT"].state is State.BAD
    assert "hush" not in "".join(map(str, found.values()))


@pytest.mark.parametrize("status, state", [(200, State.GOOD), (401, State.BAD)])
def test_doctor_tries_the_token_of_the_hub(monkeypatch, status, state):
    seen = []

    def respond(handler):
        seen.append((handler.path, handler.headers["Authorization"]))
        body = b'{"name": "ann"}'
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with LoopbackServer(respond) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url("").rstrip("/"))
        monkeypatch.setenv("HF_TOKEN", "hush")
        (found,) = [each for each in doctor() if each.name == "Hugging Face token"]
    assert seen == [("/api/whoami-v2", "Bearer hush")]
    assert found.state is state
    assert "hush" not in str(found)


def test_doctor_says_when_the_hub_does_not_answer(monkeypatch):
    with LoopbackServer(lambda handler: None) as server:
        gone = server.url("").rstrip("/")
    monkeypatch.setenv("HF_ENDPOINT", gone)
    monkeypatch.setenv("HF_TOKEN", "hush")
    (found,) = [each for each in doctor() if each.name == "Hugging Face token"]
    assert found.state is State.BAD
    assert "does not answer" in found.what


def test_simulate_needs_shards():
    with pytest.raises(SpecError):
        simulate([])
