"""From nothing to a trained network: write shards of pictures, stream them, train a small CNN.

python examples/demo.py [--samples 4000] [--epochs 4] [--workers 2] [--data demo-data]
"""

import argparse
import os
import time

import torch
from shapes import NAMES, samples
from torch import nn
from tqdm import tqdm

import webdataset as wds


def write_shards(folder, count, shards=8):
    """Write `count` samples into `shards` training shards, and a quarter as many into two validation shards."""
    os.makedirs(folder, exist_ok=True)
    names = {}
    for split, number, parts, seed in (("train", count, shards, 0), ("val", count // 4, 2, 1)):
        pattern = os.path.join(folder, f"{split}-%06d.tar")
        with wds.ShardWriter(pattern, maxcount=-(-number // parts), encoder_options={"jpg": {"quality": 90}}) as sink:
            for sample in tqdm(samples(number, seed, size=32), f"writing {split} shards", number, unit=" samples"):
                sink.write(sample)
        names[split] = os.path.join(folder, f"{split}-{{000000..{sink.shard - 1:06d}}}.tar")
    return names["train"], names["val"]


def prepare(sample):
    """A decoded sample as the network wants it: pixels from -1 to 1, channels first, and a class number."""
    return torch.from_numpy(sample["jpg"]).permute(2, 0, 1).float() / 127.5 - 1, sample["cls"]


def load(shards, workers, training):
    """Batches of (images, labels); in training the order is new in every epoch."""
    dataset = wds.WebDataset(shards, shardshuffle=100 if training else False)
    if training:
        dataset = dataset.shuffle(1000)
    dataset = dataset.decode("rgb8").map(prepare).batched(64)
    return wds.WebLoader(dataset, batch_size=None, num_workers=workers)


def network():
    """Three convolutions and a linear layer: 34,000 weights."""

    def block(before, after, **kw):
        return [nn.Conv2d(before, after, 3, padding=1, bias=False, **kw), nn.BatchNorm2d(after), nn.ReLU()]

    return nn.Sequential(
        *block(3, 16),
        nn.MaxPool2d(2),
        *block(16, 32),
        nn.MaxPool2d(2),
        *block(32, 64, stride=2),
        nn.Flatten(),
        nn.Linear(1024, len(NAMES)),
    )


def train(model, loader, epochs, count):
    """Train and return the number of images per second."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    seen, start = 0, time.perf_counter()
    model.train()
    for epoch in range(epochs):
        with tqdm(total=count, desc=f"epoch {epoch + 1} of {epochs}", unit=" images") as bar:
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images), torch.as_tensor(labels))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                seen += len(images)
                bar.update(len(images))
                bar.set_postfix(loss=f"{loss.item():.3f}")
    return seen / (time.perf_counter() - start)


@torch.no_grad()
def accuracy(model, loader):
    """The share of images that the network names rightly."""
    model.eval()
    right = [(model(images).argmax(1) == torch.as_tensor(labels)).float() for images, labels in loader]
    return torch.cat(right).mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--data", default="demo-data")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) - max(1, options.workers)))  # leave reading its cores
    train_shards, val_shards = write_shards(options.data, options.samples)
    model = network()
    speed = train(model, load(train_shards, options.workers, training=True), options.epochs, options.samples)
    right = accuracy(model, load(val_shards, 0, training=False))
    first = os.path.join(options.data, "train-000000.tar")
    print(f"""
{speed:,.0f} images/s, reading, decoding and training included
{right:.1%} of the validation images named rightly (chance: {1 / len(NAMES):.0%})

What to try next:
  a shard is a plain tar file                   tar tvf {first} | head
  the same shards from a web server or command  python examples/anywhere.py
  write augmented shards                        python examples/augment_offline.py
  a step of your own in the pipeline            python examples/own_stage.py
  everything else                               ls examples""")


if __name__ == "__main__":
    main()
