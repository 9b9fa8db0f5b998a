"""Detection: every image has another number of boxes; a batch pads them and keeps the counts.

python examples/domains/detection.py
"""

import tempfile

import numpy as np

import webdataset as wds


def scene(number, rng):
    count = int(rng.integers(0, 5))  # some images have none
    boxes = rng.integers(0, 16, (count, 2)) @ np.array([[1, 0, 1, 0], [0, 1, 0, 1]]) + [0, 0, 12, 12]
    annotations = [{"box": box.tolist(), "class": int(rng.integers(3))} for box in boxes]
    return {"__key__": f"{number:03d}", "jpg": np.zeros((32, 32, 3), np.uint8), "json": annotations}


def as_arrays(annotations):
    """(boxes × 4, boxes): also for an image without boxes."""
    boxes = np.array([one["box"] for one in annotations], np.float32).reshape(-1, 4)
    return boxes, np.array([one["class"] for one in annotations], np.int64)


def main():
    rng = np.random.default_rng(0)
    scenes = [scene(number, rng) for number in range(40)]
    with tempfile.TemporaryDirectory() as folder:
        with wds.ShardWriter(f"{folder}/boxes-%03d.tar", maxcount=10) as sink:
            for sample in scenes:
                sink.write(sample)
        dataset = (
            wds.WebDataset(f"{folder}/boxes-{{000..003}}.tar", shardshuffle=False)
            .decode("rgb")
            .to_tuple("jpg", "json")
            .map(lambda pair: (pair[0], *as_arrays(pair[1])))
            .batched(8, wds.padded_collation(value={1: 0, 2: -1}))
        )
        boxes = 0
        for images, corners, classes in dataset:
            assert corners.shape == (*classes.shape, 4) and len(images) == len(classes)
            boxes += int((classes >= 0).sum())
    assert boxes == sum(len(sample["json"]) for sample in scenes)
    print(f"{boxes} boxes in {len(scenes)} images, class -1 is padding")


if __name__ == "__main__":
    main()
