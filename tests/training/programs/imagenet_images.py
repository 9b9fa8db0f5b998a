"""What main_orig.py and main_wds.py feed to the network: `imagenet_images.py DATA SHARDS` writes seen.json."""

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "imagenet"))
import main_orig
import main_wds
from vision import Centre, make_model


def digest(tensor, label=None):
    return hashlib.sha256(tensor.numpy().tobytes()).hexdigest() + f" {label}"


def images_of(loader):
    return [(image, int(label)) for images, labels, *_ in loader for image, label in zip(images, labels, strict=True)]


def seen_by(program, args):
    torch.manual_seed(0)
    augmenting, _, classes = program.make_loaders(args)
    weights = digest(torch.cat([part.flatten() for part in make_model("small", classes).parameters()]).detach())
    augmented = set()
    for epoch in range(2):
        program.begin_epoch(augmenting, epoch)
        augmented |= {digest(image) for image, _ in images_of(augmenting)}
    program.Augment = Centre  # from here on the images are comparable
    args.workers = 0
    train, val, _ = program.make_loaders(args)
    return {
        "weights": weights,
        "augmented": len(augmented),
        "steps": len(train),
        "batches": [len(labels) for _, labels, *_ in train],
        "train": sorted(digest(*pair) for pair in images_of(train)),
        "val": sorted(digest(*pair) for pair in images_of(val)),
        "val_weight": sum(float(program.weights_of(rest, labels).sum()) for _, labels, *rest in val),
    }


def main():
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        os.environ[name] = value
    dist.init_process_group("gloo")
    data, shards = map(Path, sys.argv[1:])
    options = {"data": data, "shards": shards, "loader": "processes", "image_size": 32, "batch_size": 8, "seed": 0}
    seen = {
        program.__name__: seen_by(program, argparse.Namespace(**options, workers=2))
        for program in (main_orig, main_wds)
    }
    Path("seen.json").write_text(json.dumps(seen))
    dist.destroy_process_group()


main()
