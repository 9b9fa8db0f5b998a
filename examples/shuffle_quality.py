"""Does shuffling matter? A small CNN on shards that are sorted by class, read in several orders.

    python examples/shuffle_quality.py --out shuffle_quality.svg

Every order trains the same network with the same seeds on the same samples; only the order differs. "full shuffle" is a
shuffle of everything in memory: the reference. "global order" is the indexed dataset with order="random". Buffers are
those of a stream without index. Prints the accuracies on a test set, mean and standard error over the seeds.

Five seeds cannot tell a difference of 0.2 points. So the full shuffle and the global order are compared in `--pairs` of
runs that begin with the same weights; their difference is printed with its standard error.
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

BATCH = 64
WIDTH = 32  # with half as many channels, or samples, the accuracies of two seeds differ twice as much


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
        "global order": lambda seed: wds.WebDataset(urls, index=True, seed=seed, order="random"),
        "no shuffle": lambda seed: stream(seed, 0, shardshuffle=False),
        "shards": lambda seed: stream(seed, 0, shardshuffle=True),
    }
    for buffer in buffers:
        made[f"shards, buffer {buffer}"] = lambda seed, buffer=buffer: stream(seed, buffer, shardshuffle=True)
    made["resampled"] = lambda seed: stream(seed, max(buffers), resampled=True).with_epoch(count)
    return made


class InMemory:
    """The reference: all samples in a new random order every epoch."""

    def __init__(self, made, seed):
        self.made, self.rng = made, random.Random(seed)

    def __iter__(self):
        return iter(self.rng.sample(self.made, len(self.made)))


def network(classes):
    def layer(inside, outside):
        return nn.Sequential(nn.Conv2d(inside, outside, 3, 2, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU())

    ends = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * WIDTH, classes)
    return nn.Sequential(layer(3, WIDTH), layer(WIDTH, 2 * WIDTH), layer(2 * WIDTH, 4 * WIDTH), *ends)


def batches(samples):
    images, labels = [], []
    for image, label in samples:
        images.append(image)
        labels.append(int(label))
        if len(labels) == BATCH:
            yield as_input(images), torch.tensor(labels)
            images, labels = [], []


def as_input(images):
    return torch.from_numpy(np.stack(images).transpose(0, 3, 1, 2).astype(np.float32) / 255 - 0.5)


def accuracy(dataset, test, classes, epochs, steps, seed):
    torch.manual_seed(seed)
    model = network(classes)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * steps)
    for _ in range(epochs):
        for images, labels in batches(dataset):
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        return 100 * (model(test[0]).argmax(1) == test[1]).float().mean().item()


def summary(values):
    """Mean and standard error."""
    return statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def plot(results, labels, path):
    """Left: the classes in the order of an epoch, sample after sample. Right: the accuracies."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "shuffle_quality"  # the same file for the same numbers
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 0.45 * len(results) + 1), sharey=True)
    width = min(map(len, labels.values()))
    every = max(1, width // 500)
    strips = np.array([of_one[:width:every] for of_one in labels.values()])
    extent = (0, width, len(results) - 0.5, -0.5)
    left.imshow(strips, aspect="auto", cmap="tab10", vmin=0, vmax=9, interpolation="nearest", extent=extent)
    for place in range(1, len(results)):
        left.axhline(place - 0.5, color="white", linewidth=3)
    left.set_xlabel("samples of the first epoch, coloured by class")
    for place, values in enumerate(results.values()):
        right.plot(values, [place] * len(values), "o", alpha=0.5)
        right.plot(statistics.mean(values), place, "k|", markersize=16)
    right.set_yticks(range(len(results)), results)
    right.set_xlabel("accuracy, % (points: seeds, line: mean)")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=8000)
    parser.add_argument("--test-samples", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=len(NAMES))
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=24, help="seeds of full shuffle and global order")
    parser.add_argument("--buffers", type=int, nargs="*", default=[100, 1000, 2000])
    parser.add_argument("--out", help="draw the results into this file")
    args = parser.parse_args()
    held_out = [sample for sample in samples(args.test_samples, 1, args.size) if sample["cls"] < args.classes]
    test = as_input([sample["jpg"] for sample in held_out]), torch.tensor([sample["cls"] for sample in held_out])
    with tempfile.TemporaryDirectory() as folder:
        urls, made = write(folder, args.samples, args.classes, args.size)
        pairs = [(sample["jpg"], sample["cls"]) for sample in made]
        choices = {"full shuffle": None, **orders(urls, args.buffers, len(pairs))}

        def dataset_of(name, seed):
            make = choices[name]
            return InMemory(pairs, seed) if make is None else make(seed).decode().to_tuple("npy", "cls")

        def accuracies(name, seeds):
            steps = len(pairs) // BATCH
            return [accuracy(dataset_of(name, seed), test, args.classes, args.epochs, steps, seed) for seed in seeds]

        results = {}
        for name in choices:
            compared = name in ("full shuffle", "global order")
            results[name] = accuracies(name, range(args.pairs if compared else args.seeds))
            mean, error = summary(results[name])
            print(f"{name:22s} {mean:6.2f}% ± {error:.2f}, {len(results[name])} seeds", flush=True)
        both = zip(results["global order"], results["full shuffle"], strict=True)
        mean, error = summary([ours - full for ours, full in both])
        print(f"global order - full shuffle: {mean:+.2f} points ± {error:.2f}")
        if args.out:
            labels = {name: [int(label) for _, label in dataset_of(name, 0)] for name in results}
            plot(results, labels, args.out)


if __name__ == "__main__":
    main()
