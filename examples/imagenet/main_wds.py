"""Training on ImageNet from shards: main_orig.py with another data part (`diff main_orig.py main_wds.py`).

python main_wds.py --shards shards
torchrun --nproc-per-node=2 main_wds.py --shards shards
"""

import argparse
import json
import os
import random
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from vision import Augment, Centre, make_model

import webdataset as wds


def add_data_options(parser):
    parser.add_argument("--shards", type=Path, default=Path("shards"), help="a directory")
    parser.add_argument("--loader", choices=["processes", "threads"], default="processes")


def make_loaders(args):
    def loader(split, transform, **options):
        dataset = wds.WebDataset(str(args.shards / f"imagenet-{split}.json"), seed=args.seed, uneven="pad", **options)
        samples = dataset.decode("pil").to_tuple("jpg;png", "cls", "__pad__").map_tuple(transform, None, None)
        return wds.WebLoader(samples, batch_size=args.batch_size, num_workers=args.workers, workers=args.loader)

    train_loader = loader("train", Augment(args.image_size), order="random")
    val_loader = loader("val", Centre(args.image_size))
    return train_loader, val_loader, len(json.loads((args.shards / "classes.json").read_text()))


def begin_epoch(loader, epoch):
    pass  # the loader counts its epochs, each has its own order


def weights_of(rest, target):
    """What each sample counts in the validation: those that only fill up the last step count nothing."""
    return 1 - rest[0].float()


def position_of(loader):
    return loader.state_dict()


def go_to(loader, position):
    loader.load_state_dict(position)


def train_epoch(loader, model, optimizer, schedule, loss_function, epoch, args, save):
    model.train()
    begin_epoch(loader, epoch)
    began, samples = time.perf_counter(), 0
    for step, (images, target, *_) in enumerate(loader):
        loss = loss_function(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        samples += len(target)
        if step % args.print_freq == 0:
            show(f"epoch {epoch} step {step}: loss {loss.item():.3f}")
        if args.save_freq and (step + 1) % args.save_freq == 0:
            save(epoch, position_of(loader))
        if args.stop_after and schedule.last_epoch >= args.stop_after:
            raise SystemExit(f"stopped after {schedule.last_epoch} steps")
    seconds = time.perf_counter() - began
    show(f"epoch {epoch}: {samples} samples on this rank, {samples / seconds:.0f} samples/s")


@torch.no_grad()
def validate(loader, model):
    model.eval()
    counts = torch.zeros(2, dtype=torch.float64)
    for images, target, *rest in loader:
        weights = weights_of(rest, target)
        correct = model(images).argmax(1) == target
        counts += torch.stack([(correct * weights).sum(), weights.sum()])
    dist.all_reduce(counts)
    show(f"validation: {100 * counts[0] / counts[1]:.2f}% of {int(counts[1])} images are right")


def show(text):
    if dist.get_rank() == 0:
        print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_options(parser)
    parser.add_argument("--arch", default="small", help="small, or a name of torchvision.models")
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32, help="on each rank")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--print-freq", type=int, default=50)
    parser.add_argument("--checkpoint", type=Path, help="save here, and go on from here if it exists")
    parser.add_argument("--save-freq", type=int, default=0, help="save after so many steps, too")
    parser.add_argument("--stop-after", type=int, default=0, help="end after so many steps, as a crash would")
    args = parser.parse_args()
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        os.environ.setdefault(name, value)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    # Weights are those of rank 0. Each rank draws its own augmentations; workers draw from torch's generator.
    torch.manual_seed(args.seed + dist.get_rank())
    random.seed(args.seed + dist.get_rank())
    train_loader, val_loader, classes = make_loaders(args)
    model = DistributedDataParallel(make_model(args.arch, classes))
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    parts, first, done = {"model": model, "optimizer": optimizer}, 0, 0
    if args.checkpoint and args.checkpoint.exists():
        saved = torch.load(args.checkpoint, weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        first, done = saved["epoch"], saved["steps"]
        go_to(train_loader, saved["position"])
    # The steps that are left depend on the number of ranks, which may have changed.
    total = done + (args.epochs - first) * len(train_loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total, last_epoch=done - 1)

    def save(epoch, position):
        if args.checkpoint and dist.get_rank() == 0:
            states = {name: part.state_dict() for name, part in parts.items()}
            temporary = args.checkpoint.with_suffix(".part")
            torch.save({**states, "epoch": epoch, "steps": schedule.last_epoch, "position": position}, temporary)
            temporary.replace(args.checkpoint)

    for epoch in range(first, args.epochs):
        train_epoch(train_loader, model, optimizer, schedule, nn.CrossEntropyLoss(), epoch, args, save)
        save(epoch + 1, position_of(train_loader))
        validate(val_loader, model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
