"""Make batches to send over streams of arrays, and describe received ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from webdataset.pipeline import DataPipeline, WebDataset

_SIDE = 224


def array_statistics(messages: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """For each array of a message: count, min, max, mean, std, number of values, and the set of types and shapes.

    >>> found = array_statistics([[np.array([1, 3], "u1")], [np.array([5, 7], "u1")]])
    >>> found[0]["mean"], found[0]["kinds"]
    (4.0, ['uint8[2]'])
    """
    sums: list[dict[str, Any]] = []
    for message in messages:
        while len(sums) < len(message):
            sums.append({"count": 0, "min": np.inf, "max": -np.inf, "n": 0, "sum": 0.0, "squares": 0.0, "kinds": set()})
        for each, array in zip(sums, message, strict=False):
            values = np.asarray(array, np.float64)
            each["count"] += 1
            each["kinds"].add(f"{array.dtype}{list(array.shape)}".replace(" ", ""))
            if values.size:
                each["min"], each["max"] = min(each["min"], values.min()), max(each["max"], values.max())
                each["n"] += values.size
                each["sum"] += values.sum()
                each["squares"] += (values**2).sum()
    return [_finished(each) for each in sums]


def as_image(array: Any) -> np.ndarray[Any, Any]:
    """An array as an image that can be encoded: channels last, and floats between 0 and 1.

    >>> as_image(np.array([[[-1.0, 3.0]]] * 3)).tolist()
    [[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]]
    """
    image = np.asarray(array)
    if image.ndim == 3 and image.shape[0] in {1, 3} and image.shape[2] not in {1, 3, 4}:
        image = np.moveaxis(image, 0, -1)
    if image.dtype.kind != "f" or not image.size:
        return image
    image = np.nan_to_num(image.astype(np.float32))
    low, high = float(image.min()), float(image.max())
    if low < 0 or high > 1:  # normalized: scale to the full range
        image = (image - low) / ((high - low) or 1)
    return image


def _finished(sums: dict[str, Any]) -> dict[str, Any]:
    n = max(1, sums["n"])
    mean = sums["sum"] / n
    return {
        "count": sums["count"],
        "min": float(sums["min"]),
        "max": float(sums["max"]),
        "mean": float(mean),
        "std": float(max(0.0, sums["squares"] / n - mean**2) ** 0.5),
        "n": sums["n"],
        "kinds": sorted(sums["kinds"]),
    }


def imagenet_batches(shards: str, batch: int, *, shuffle: bool = False) -> DataPipeline:
    """Batches of images of one size (uint8) and labels (int32) of shards with `jpg` and `cls`."""
    dataset: Any = WebDataset(shards, shardshuffle=shuffle)
    if shuffle:
        dataset = dataset.shuffle(1000)
    result: DataPipeline = dataset.decode("rgb8").to_tuple("jpg;png;jpeg cls").map(_crop_and_resize).batched(batch)
    return result


def _crop_and_resize(sample: Sequence[Any]) -> tuple[Any, Any]:
    """The middle of the image, in the size that all images of a batch have."""
    image = np.asarray(sample[0])
    side = min(image.shape[:2])
    top, left = (image.shape[0] - side) // 2, (image.shape[1] - side) // 2
    rows = top + (np.arange(_SIDE) * side) // _SIDE
    columns = left + (np.arange(_SIDE) * side) // _SIDE
    return image[rows][:, columns], np.int32(sample[1])
