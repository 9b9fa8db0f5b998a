from pathlib import Path

import pytest

import webdataset as wds
from tests.pipeline.indexed import N, write_shards
from tests.pipeline.planned import batches, keys
from webdataset.errors import ShardNotFound, SpecError, StaleIndex, StateError


def test_a_checkpoint_of_another_dataset_or_pipeline_is_refused_with_what_differs(shards, few):
    dataset = batches(shards)
    items = iter(dataset)
    next(items)
    state = dataset.state_dict()
    items.close()
    for other, words in (
        (batches(few), "1003 samples in 17 shards .*31 samples in 5 shards"),
        (batches(shards[::-1]), "stage 0 .*#"),
        (batches(shards, order="sequential"), "window=None.*ReadPlanned"),
        (batches(shards, batch=5), "batch=4.*batch=5"),
        (batches(shards, seed=3), "seed 0.*3"),
        (wds.WebDataset(shards, index=False), "ReadPlanned.*SimpleShardList"),
    ):
        with pytest.raises(StateError, match=words):
            other.load_state_dict(state)


@pytest.mark.parametrize(
    "rest", [{"samples": N, "position": N + 1, "also": []}, {"samples": 7, "position": 1, "also": []}]
)
def test_a_place_that_is_not_in_the_dataset_is_refused(shards, rest):
    dataset = batches(shards)
    state = dataset.state_dict()
    state["at"] = {"epoch": 0, "passes": 0, "position": 0, "plan": {"remaining": rest}}
    with pytest.raises(StateError, match="resume with the dataset"):
        dataset.load_state_dict(state)
        list(dataset)


def test_a_shard_that_vanished_between_checkpoint_and_resume_is_named(tmp_path):
    urls = write_shards(tmp_path, [4, 4, 4])
    for options in ({}, {"order": "random"}):
        dataset = wds.WebDataset(urls, **options).batched(2)
        items = iter(dataset)
        next(items)
        state = dataset.state_dict()
        dataset.close()
        Path(urls[2]).rename(tmp_path / "away")
        again = wds.WebDataset(urls, **options).batched(2)
        again.load_state_dict(state)
        with pytest.raises(ShardNotFound, match=r"part-002\.tar"):
            list(again)
        again.close()
        (tmp_path / "away").rename(urls[2])


@pytest.mark.parametrize("options", [{}, {"order": "random"}])
def test_an_index_of_another_shard_is_refused(tmp_path, options):
    urls = write_shards(tmp_path, [4, 6])
    (tmp_path / "part-000.idx").write_bytes((tmp_path / "part-001.idx").read_bytes())
    dataset = wds.WebDataset(urls, **options)
    with pytest.raises(StaleIndex, match=r"part-000\.tar"):
        list(dataset)
    dataset.close()


@pytest.mark.parametrize("options", [{}, {"order": "random"}])
def test_counts_that_do_not_match_are_refused(tmp_path, options):
    from webdataset.index import Description, ShardEntry, write_description

    urls = write_shards(tmp_path, [4, 6])
    for wrong in (5, 7):
        entries = [ShardEntry(urls[0], 4), ShardEntry(urls[1], wrong)]
        (tmp_path / "all.json").write_bytes(write_description(Description(entries)))
        dataset, seen = wds.WebDataset(tmp_path / "all.json", **options), []
        with pytest.raises(StaleIndex, match=r"part-001\.tar"):
            seen.extend(sample["__key__"] for sample in dataset)
        assert len(set(seen)) == len(seen) and "00009" not in seen or wrong == 7
        dataset.close()


def test_a_world_of_nobody_is_refused(few, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "0")
    with pytest.raises(SpecError, match="WORLD_SIZE"):
        list(wds.WebDataset(few))


@pytest.mark.parametrize(
    "options", [{"handler": wds.warn_and_continue, "order": "random"}, {"handler": wds.warn_and_continue}]
)
@pytest.mark.filterwarnings("ignore")
def test_a_handler_lets_a_damaged_shard_go_by(tmp_path, options):
    urls = write_shards(tmp_path, [4, 6, 3], size=100)
    damaged = bytearray(Path(urls[1]).read_bytes())
    damaged[5 * 512 * 2 : 5 * 512 * 2 + 512] = b"?" * 512
    Path(urls[1]).write_bytes(damaged)
    dataset = wds.WebDataset(urls, **options)
    seen = keys(dataset)
    assert {f"{n:05d}" for n in (0, 1, 2, 3, 10, 11, 12)} <= set(seen) < {f"{n:05d}" for n in range(13)}
    dataset.close()


def test_an_empty_dataset_is_an_error_unless_allowed(tmp_path):
    urls = write_shards(tmp_path, [0])
    with pytest.raises(SpecError, match="No samples found"):
        list(wds.WebDataset(urls))
    assert list(wds.WebDataset(urls, empty_check=False)) == []
