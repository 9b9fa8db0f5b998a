"""Does shuffling matter? A small CNN on shards that are sorted by class, read in several orders.

    python examples/shuffle_quality.py --out shuffle_quality.svg

Every order trains the same network with the same seeds on the same samples; only the order differs. "full shuffle" is a
shuffle of everything in memory: the reference. Buffers are those of a stream without index; "global order" is the indexed
dataset with order="random". Prints the accuracies on a test set, mean and standard error over the seeds.
"""

import argparse
import random
import statistics
import tempfile

import numpy as np
import torch
from shapes import NAMES, samples
from torch import nn

import webdataset as wds


def write(folder, count, classes, size):
    """Shards sorted by class, the worst case: each shard holds one class, or two."""
    made = [sample for sample in samples(count, seed=0, size=size) if sample["cls"] < classes]
    made.sort(key=lambda sample: sample["cls"])
    with wds.ShardWriter(f"{folder}/sorted-%03d.tar", maxcount=max(1, len(made) // 20), index=True) as sink:
        for sample in made:
            sink.write({"__key__": sample["__key__"], "npy": sample["jpg"], "cls": sample["cls"]})
    return [f"{folder}/sorted-{number:03d}.tar" for number in range(sink.shard)], made


def orders(urls, buffers, count):
    """Name → a function of the seed that makes the dataset."""

    def stream(seed, buffer, **options):
        return wds.WebDataset(urls, index=False, seed=seed, **options).shuffle(buffer)

    made = {
        "no shuffle": lambda seed: stream(seed, 0, shardshuffle=False),
        "shards": lambda seed: stream(seed, 0, shardshuffle=True),
    }
    for buffer in buffers:
        made[f"shards, buffer {buffer}"] = lambda seed, buffer=buffer: stream(seed, buffer, shardshuffle=True)
    made["resampled"] = lambda seed: stream(seed, max(buffers), resampled=True).with_epoch(count)
    made["global order"] = lambda seed: wds.WebDataset(urls, index=True, seed=seed, order="random")
    return made


class InMemory:
    """The reference: all samples in a new random order every epoch."""

    def __init__(self, made, seed):
        self.made, self.rng = made, random.Random(seed)

    def __iter__(self):
        return iter(self.rng.sample(self.made, len(self.made)))


def network(classes):
    def layer(inside, outside):
        return nn.Sequential(nn.Conv2d(inside, outside, 3, 2, 1), nn.ReLU())

    return nn.Sequential(layer(3, 16), layer(16, 32), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, classes))


def batches(pairs, size):
    images, labels = [], []
    for image, label in pairs:
        images.append(np.asarray(image, np.float32).transpose(2, 0, 1) / 255 - 0.5)
        labels.append(int(label))
        if len(labels) == size:
            yield torch.from_numpy(np.stack(images)), torch.tensor(labels)
            images, labels = [], []


def accuracy(dataset, test, classes, epochs, seed):
    torch.manual_seed(seed)
    model = network(classes)
    steps = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(epochs):
        for images, labels in batches(dataset, 32):
            loss = nn.functional.cross_entropy(model(images), labels)
            steps.zero_grad()
            loss.backward()
            steps.step()
    with torch.no_grad():
        return 100 * (model(test[0]).argmax(1) == test[1]).float().mean().item()


def plot(results, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 0.5 * len(results) + 1))
    for place, values in enumerate(results.values()):
        axes.plot(values, [place] * len(values), "o", alpha=0.5)
        axes.plot(statistics.mean(values), place, "k|", markersize=18)
    axes.set_yticks(range(len(results)), results)
    axes.invert_yaxis()
    axes.set_xlabel("accuracy on the test set, % (points: seeds, line: mean)")
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--classes", type=int, default=len(NAMES))
    parser.add_argument("--size", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--buffers", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--out", help="draw the results into this file")
    args = parser.parse_args()
    held_out = [sample for sample in samples(2000, seed=1, size=args.size) if sample["cls"] < args.classes]
    test = next(batches([(sample["jpg"], sample["cls"]) for sample in held_out], len(held_out)))
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        urls, made = write(folder, args.samples, args.classes, args.size)
        pairs = [(sample["jpg"], sample["cls"]) for sample in made]
        choices = {"full shuffle": None, **orders(urls, args.buffers, len(pairs))}
        for name, make in choices.items():
            results[name] = []
            for seed in range(args.seeds):
                dataset = InMemory(pairs, seed) if make is None else make(seed).decode().to_tuple("npy", "cls")
                results[name].append(accuracy(dataset, test, args.classes, args.epochs, seed))
            mean = statistics.mean(results[name])
            error = statistics.stdev(results[name]) / args.seeds**0.5 if args.seeds > 1 else 0
            print(f"{name:22s} {mean:5.1f}% ± {error:.1f}", flush=True)
    if args.out:
        plot(results, args.out)


if __name__ == "__main__":
    main()
