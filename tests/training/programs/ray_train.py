"""Ray Train: every worker is a rank of torch.distributed; the position goes into Ray's checkpoint.

`ray_train.py SHARDS FOLDER RANKS` trains an epoch at once ("whole"), and the same epoch in two runs ("first", "rest") whose
workers are processes of their own. Each rank tells in FOLDER/PHASE/rank-R.json what it trained on.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import ray
import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

SHARDS, FOLDER, RANKS = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
STOP = 5


def loop(settings):
    import torch

    import webdataset as wds

    dataset = wds.WebDataset(settings["urls"], seed=3, shardshuffle=True, uneven="pad").decode()
    loader = wds.WebLoader(dataset.to_tuple("npy", "cls", "__pad__"), batch_size=4, num_workers=settings["workers"])
    if settings["checkpoint"]:
        with Checkpoint(settings["checkpoint"]).as_directory() as saved:
            loader.load_state_dict(json.loads((Path(saved) / "loader.json").read_text()))
    model, seen = prepare_model(torch.nn.Linear(4, 1)), []
    for step, (inputs, numbers, padding) in enumerate(loader, start=1):
        weight = 1 - torch.as_tensor(padding).float()
        (model(torch.as_tensor(inputs)).squeeze(1).square() * weight).mean().backward()
        seen.append(torch.as_tensor(numbers)[weight > 0].tolist())
        if step == settings["stop"]:
            break
    rank = ray.train.get_context().get_world_rank()
    (Path(settings["folder"]) / f"rank-{rank}.json").write_text(json.dumps({"seen": seen}))
    with tempfile.TemporaryDirectory() as kept:
        (Path(kept) / "loader.json").write_text(json.dumps(loader.state_dict()))
        ray.train.report({"steps": len(seen)}, checkpoint=Checkpoint(kept) if rank == 0 else None)


def train(phase, workers, checkpoint=None, stop=None):
    folder = FOLDER / phase
    folder.mkdir()
    urls = [str(path) for path in sorted(Path(SHARDS).glob("train-*.tar"))]
    settings = {"urls": urls, "folder": str(folder), "workers": workers, "checkpoint": checkpoint, "stop": stop}
    trainer = TorchTrainer(
        loop,
        train_loop_config=settings,
        scaling_config=ScalingConfig(num_workers=RANKS),
        run_config=RunConfig(storage_path=str(FOLDER / "ray"), name=phase),
    )
    return trainer.fit().checkpoint.path


def start(folder):
    """Ray gives a node 30 seconds to start, whatever the machine is doing; so try again."""
    for attempt in range(6):
        try:
            return ray.init(
                num_cpus=RANKS,
                object_store_memory=100_000_000,
                include_dashboard=False,
                log_to_driver=False,
                _temp_dir=f"{folder}/{attempt}",
            )
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
            ray.shutdown()
    raise SystemExit("Ray did not start")


def main():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:  # short: sockets lie in it
        start(folder)
        try:
            train("whole", workers=0)
            kept = train("first", workers=1, stop=STOP)
            train("rest", workers=0, checkpoint=kept)
        finally:
            ray.shutdown()


main()
