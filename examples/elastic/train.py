"""Training that may be killed at any time and goes on with another number of ranks: nothing repeated, nothing lost.

    torchrun --nproc-per-node=4 train.py --shards 'shards/train-{000..004}.tar' --out run
    torchrun --nproc-per-node=3 train.py --shards 'shards/train-{000..004}.tar' --out run     # after a crash
    python account.py run

Every rank writes a journal of the samples it trained on. A checkpoint holds the model and the position of the loader, which
is one number for all ranks. Steps after the last checkpoint are lost with the model that they made, and are done again; so
`account.py` counts the steps that are in the model.
"""

import argparse
import json
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import webdataset as wds


def make_loader(args):
    dataset = wds.WebDataset(args.shards, index=True, seed=args.seed, order="random", uneven="pad")
    samples = dataset.decode().to_tuple("npy", "cls", "__pad__")
    return wds.WebLoader(samples, batch_size=args.batch_size, num_workers=args.workers)


def save(path, **states):
    """Completely or not at all."""
    torch.save(states, path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)


def train_step(model, optimizer, batch):
    inputs, labels, padding = map(torch.as_tensor, batch)
    weights = 1 - padding.float()
    errors = (model(inputs).squeeze(1) - (labels % 7).float()).square()
    # DDP averages over ranks: divide by the samples of an average rank, padding not counted.
    samples = weights.sum()
    dist.all_reduce(samples)
    loss = (errors * weights).sum() * dist.get_world_size() / samples
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach() / dist.get_world_size()
    dist.all_reduce(total)
    return total.item(), labels[weights > 0].tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=2, help="on each rank")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--save-freq", type=int, default=3)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--kill-at", type=int, help="kill -9 at this step: all ranks, or those of --kill-ranks, once")
    parser.add_argument("--kill-ranks", type=int, nargs="*")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    checkpoint, killed = args.out / "checkpoint.pt", args.out / f"killed-{rank}"
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    loader, step, history, first_epoch = make_loader(args), 0, [], 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        step, history, first_epoch = saved["step"], saved["history"], saved["epoch"]
    run = len(history)
    history.append({"run": run, "ranks": ranks, "first": step, "stop": step})
    journal = (args.out / f"journal-{run}-{rank}.jsonl").open("w")

    def keep(epoch):
        history[-1]["stop"] = step
        if rank == 0:
            states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict()}
            save(checkpoint, **states, step=step, epoch=epoch, history=history)

    for epoch in range(first_epoch, args.epochs):
        for batch in loader:
            loss, samples = train_step(model, optimizer, batch)
            line = {"step": step, "epoch": epoch, "loss": loss, "samples": samples}
            print(json.dumps(line), file=journal, flush=True)
            step += 1
            if step % args.save_freq == 0:
                keep(epoch)
            if step == args.kill_at and not killed.exists() and rank in (args.kill_ranks or range(ranks)):
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        keep(epoch + 1)
    journal.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
