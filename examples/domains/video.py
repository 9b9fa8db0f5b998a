"""Video: every film gives several clips of eight frames; a film is a sample, a clip is a training example.

python examples/domains/video.py
"""

import tempfile

import numpy as np

import webdataset as wds

CLIP = 8


def film(number, frames=24, size=32):
    pictures = np.zeros((frames, size, size, 3), np.uint8)
    for time in range(frames):
        pictures[time, :, : 1 + time] = 40 + 20 * number  # a growing bar
    return pictures


def clips(samples):
    """A stage: several clips out of every film; a rest that is too short is left out."""
    for sample in samples:
        frames, _, info = sample["mp4"]
        for start in range(0, len(frames) - CLIP + 1, CLIP):
            yield {
                "__key__": f"{sample['__key__']}/{start}",
                "clip": frames[start : start + CLIP],
                "seconds": start / info["video_fps"],
            }


def main():
    with tempfile.TemporaryDirectory() as folder:
        with wds.ShardWriter(f"{folder}/films-%03d.tar", maxcount=3) as sink:
            for number in range(6):
                sink.write({"__key__": f"{number:03d}", "mp4": film(number)})
        dataset = (
            wds.WebDataset(f"{folder}/films-{{000..001}}.tar", shardshuffle=False)
            .decode("video")
            .compose(clips)
            .batched(6)
        )
        shapes = [batch["clip"].shape for batch in dataset]
    assert shapes == [(6, CLIP, 32, 32, 3)] * 3
    print(f"{sum(shape[0] for shape in shapes)} clips of {CLIP} frames from 6 films")


if __name__ == "__main__":
    main()
