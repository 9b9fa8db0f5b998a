"""Training without torch: NumPy batches straight from the dataset, and softmax regression by hand.

python examples/numpy_training.py
"""

import tempfile

import numpy as np
from shapes import NAMES, samples

import webdataset as wds


def features(image):
    """How strongly neighbouring pixels differ, in eight directions and distances, by part of the image."""
    grey = image.mean(2)
    grey = (grey - grey.mean()) / (grey.std() + 1e-6)
    shifts = [(0, 2), (2, 0), (2, 2), (2, -2), (0, 6), (6, 0), (6, 6), (6, -6)]
    pieces = []
    for dy, dx in shifts:
        product = grey * np.roll(grey, (dy, dx), (0, 1))
        pieces.append(product.reshape(4, 12, 4, 12).mean((1, 3)).ravel())
    return np.concatenate([*pieces, [1.0]]).astype(np.float32)


def batches(shards, training):
    dataset = wds.WebDataset(shards, shardshuffle=100 if training else False)
    if training:
        dataset = dataset.shuffle(500)
    return dataset.decode("rgb").to_tuple("jpg", "cls").map_tuple(features, int).batched(50)


def probabilities(weights, inputs):
    scores = inputs @ weights
    scores = np.exp(scores - scores.max(1, keepdims=True))
    return scores / scores.sum(1, keepdims=True)


def main(count=1200, epochs=4):
    with tempfile.TemporaryDirectory() as folder:
        for split, number, seed in (("train", count, 0), ("val", count // 4, 1)):
            with wds.ShardWriter(f"{folder}/{split}-%03d.tar", maxcount=number // 3) as sink:
                for sample in samples(number, seed):
                    sink.write(sample)
        weights, speed = np.zeros((129, len(NAMES))), np.zeros((129, len(NAMES)))
        train = batches(f"{folder}/train-{{000..002}}.tar", training=True)
        for epoch in range(epochs):
            for inputs, labels in train:
                slope = inputs.T @ (probabilities(weights, inputs) - np.eye(len(NAMES))[labels]) / len(labels)
                speed = 0.9 * speed - 0.2 * slope
                weights += speed
            print(f"epoch {epoch + 1}: weights {abs(weights).mean():.3f} on average")
        right = [
            probabilities(weights, inputs).argmax(1) == labels
            for inputs, labels in batches(f"{folder}/val-{{000..002}}.tar", training=False)
        ]
    print(f"{np.concatenate(right).mean():.1%} named rightly (chance: {1 / len(NAMES):.0%})")


if __name__ == "__main__":
    main()
