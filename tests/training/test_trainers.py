"""Every trainer people use, on one and two ranks: each sample once, and on from the middle of an epoch.

Missing frameworks are skipped. Starting a framework takes longer than the training, so most tests are long.
"""

import importlib.util
import itertools
import json

import pytest

from .data import N, write_shards
from .torchrun import alone, launch

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    return folder


def need(*packages):
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


def trained(program, shards, folder, ranks, phase, *arguments, workers=0, **more):
    """What each rank trained on, batch by batch."""
    arguments = (shards, phase, workers, *arguments)
    if ranks == 1:
        outcome = alone(program, *arguments, folder=folder, **more)
    else:
        outcome = launch(program, *arguments, folder=folder, nproc=ranks, **more)
    return [rank["seen"] for rank in outcome.check()], outcome.printed


def flat(ranks):
    return sorted(itertools.chain(*itertools.chain(*ranks)))


def check_whole_and_resumed(program, shards, folder, ranks, *arguments, repeated=0, **more):
    """An epoch at once, and the same epoch in two runs. `repeated`: samples that the framework trains on twice at the end."""
    whole, printed = trained(program, shards, folder, ranks, "whole", *arguments, **more)
    assert set(flat(whole)) == set(range(N)) and len(flat(whole)) == N + repeated
    assert len({len(rank) for rank in whole}) == 1
    first, _ = trained(program, shards, folder, ranks, "first", *arguments, **more)
    assert all(len(rank) == 5 for rank in first)
    rest, _ = trained(program, shards, folder, ranks, "rest", *arguments, **more)
    assert [one + other for one, other in zip(first, rest, strict=True)] == whole
    return printed


RANKS = pytest.mark.parametrize("ranks", [1, 2])
# accelerate fills the last step with samples of the first batches: 103 samples in steps of 8.
REPEATED = {1: 0, 2: 1}


def test_accelerate_splits_once(shards, tmp_path):
    """The default of accelerate: rank 0 reads and sends. Without the detection each epoch has half of the samples."""
    need("accelerate")
    seen, printed = trained("accelerate_loop.py", shards, tmp_path, 2, "whole", "dispatch")
    assert set(flat(seen)) == set(range(N)) and len(flat(seen)) == N + 1
    assert "accelerate's DataLoaderDispatcher splits this dataset" in printed


@pytest.mark.long
@RANKS
@pytest.mark.parametrize("splitter", ["dispatch", "shard", "ours"])
@pytest.mark.parametrize("workers", [0, 2])
def test_accelerate(shards, tmp_path, ranks, splitter, workers):
    need("accelerate")
    if workers and ranks == 1 and splitter != "ours":
        pytest.skip("torch's DataLoader makes batches in each worker: on one rank nothing new")
    repeated = 0 if splitter == "ours" else REPEATED[ranks]
    if workers and splitter != "ours":
        seen, _ = trained("accelerate_loop.py", shards, tmp_path, ranks, "whole", splitter, workers=workers)
        assert set(flat(seen)) == set(range(N))
        return
    check_whole_and_resumed("accelerate_loop.py", shards, tmp_path, ranks, splitter, repeated=repeated, workers=workers)


@pytest.mark.long
@RANKS
@pytest.mark.parametrize("splitter", ["dispatch", "shard", "ours"])
def test_hugging_face_trainer(shards, tmp_path, ranks, splitter):
    need("transformers", "accelerate")
    repeated = 0 if splitter == "ours" else REPEATED[ranks]
    check_whole_and_resumed("hf_trainer.py", shards, tmp_path, ranks, splitter, repeated=repeated)


@pytest.mark.long
@RANKS
@pytest.mark.parametrize("workers", [0, 2])
def test_lightning(shards, tmp_path, ranks, workers):
    need("lightning")
    check_whole_and_resumed("lightning_fit.py", shards, tmp_path, ranks, workers=workers)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "lost"), [("stream", 1), ("declared", 0)])
def test_lightning_fetches_a_batch_ahead_where_the_length_is_not_known(shards, tmp_path, kind, lost):
    """The remedy that docs/training.md gives is tested together with the fault that it is for."""
    need("lightning")
    (whole,), (first,), (rest,) = (
        trained("lightning_fit.py", shards, tmp_path, 1, phase, kind)[0] for phase in ("whole", "first", "rest")
    )
    assert flat([whole]) == list(range(N))
    assert first + rest == whole[: len(first)] + whole[len(first) + lost :]


@pytest.mark.long
@RANKS
@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_data_loader(shards, tmp_path, ranks, workers):
    need("torchdata")
    check_whole_and_resumed("stateful.py", shards, tmp_path, ranks, workers=workers)


@pytest.mark.long
@RANKS
@pytest.mark.parametrize("workers", [0, 2])
def test_plain_ddp(shards, tmp_path, ranks, workers):
    check_whole_and_resumed("plain_ddp.py", shards, tmp_path, ranks, workers=workers)


@pytest.mark.long
@pytest.mark.timeout(1000)
@RANKS
def test_ray_train(shards, tmp_path, ranks):
    need("ray")
    if importlib.util.find_spec("ray.train.torch") is None:
        pytest.skip("ray is installed without ray[train]")
    alone("ray_train.py", shards, tmp_path, ranks, folder=tmp_path, timeout=900).check()
    seen = {
        phase: [json.loads((tmp_path / phase / f"rank-{rank}.json").read_text())["seen"] for rank in range(ranks)]
        for phase in ("whole", "first", "rest")
    }
    assert all(len(rank) == 5 for rank in seen["first"])
    assert flat(seen["whole"]) == list(range(N))
    assert [one + other for one, other in zip(seen["first"], seen["rest"], strict=True)] == seen["whole"]


@pytest.mark.long
@pytest.mark.parametrize("library", ["numpy", "jax"])
@RANKS
def test_a_loop_without_torch(shards, tmp_path, library, ranks):
    need(library)
    phases = {}
    for phase in ("whole", "first", "rest"):
        seen = []
        for rank in range(ranks):  # they need not run at the same time: each computes its part
            world = {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
            outcome = alone("plain_loop.py", shards, phase, 2, library, folder=tmp_path, nproc=ranks, **world)
            assert outcome.code == 0, outcome.printed
            seen.append(outcome.ranks[rank]["seen"])
        phases[phase] = seen
    assert flat(phases["whole"]) == list(range(N))
    assert [one + other for one, other in zip(phases["first"], phases["rest"], strict=True)] == phases["whole"]
