"""Ray Train: every worker is a rank of torch.distributed; the position goes into Ray's checkpoint."""

import json
import sys
import tempfile
from pathlib import Path

import ray
import ray.train
from common import BATCH, URLS
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

RANKS = int(sys.argv[4])


def loop(settings):
    import webdataset as wds

    sys.argv = settings["argv"]
    sys.path.insert(0, settings["programs"])
    from common import STOP, Model

    dataset = wds.WebDataset(settings["urls"], seed=3, shardshuffle=True, uneven="pad").decode()
    loader = wds.WebLoader(dataset.to_tuple("npy", "cls", "__pad__"), batch_size=settings["batch"], num_workers=0)
    model = Model()
    wrapped = prepare_model(model)
    folder = Path(settings["folder"])
    if settings["phase"] == "rest":
        with ray.train.Checkpoint(settings["checkpoint"]).as_directory() as saved:
            loader.load_state_dict(json.loads((Path(saved) / "loader.json").read_text()))
    rank = ray.train.get_context().get_world_rank()
    for step, batch in enumerate(loader, start=1):
        wrapped(*batch).backward()
        if settings["phase"] == "first" and step == STOP:
            break
    (folder / f"rank-{rank}.json").write_text(json.dumps({"seen": model.seen}))
    with tempfile.TemporaryDirectory() as kept:
        (Path(kept) / "loader.json").write_text(json.dumps(loader.state_dict()))
        ray.train.report({"steps": len(model.seen)}, checkpoint=Checkpoint(kept) if rank == 0 else None)


def main():
    here = Path.cwd()
    kept = here / "ray-checkpoint.txt"
    settings = {
        "argv": sys.argv,
        "programs": str(Path(__file__).parent),
        "urls": URLS,
        "batch": BATCH,
        "phase": sys.argv[2],
        "folder": str(here),
        "checkpoint": kept.read_text() if kept.exists() else None,
    }
    ray.init(num_cpus=RANKS, include_dashboard=False, log_to_driver=False)
    trainer = TorchTrainer(
        loop,
        train_loop_config=settings,
        scaling_config=ScalingConfig(num_workers=RANKS),
        run_config=RunConfig(storage_path=str(here / "ray"), name=sys.argv[2]),
    )
    kept.write_text(trainer.fit().checkpoint.path)
    ray.shutdown()


main()
