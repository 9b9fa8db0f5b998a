"""Video: every film gives several clips of eight frames; a film is a sample, a clip is a training example.

python examples/domains/video.py
"""

import tempfile

import numpy as np

import webdataset as wds

CLIP = 8


def film(number, size=32):
    frames = 24 + number
    pictures = np.zeros((frames, size, size, 3), np.uint8)
    for time in range(frames):
        pictures[time, :, : 1 + time] = 40 + 20 * number  # a growing bar
    return pictures


def clips(samples):
    """A stage: several clips out of every film. The last one begins earlier if need be, so that every frame is in a clip."""
    for sample in samples:
        frames, _, info = sample["mp4"]
        if len(frames) < CLIP:
            raise ValueError(f"film {sample['__key__']} has {len(frames)} frames, a clip has {CLIP}")
        for start in (*range(0, len(frames) - CLIP, CLIP), len(frames) - CLIP):
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
        count, seen = 0, set()
        for batch in dataset:
            assert batch["clip"].shape[1:] == (CLIP, 32, 32, 3)
            count += len(batch["clip"])
            for key in batch["__key__"]:
                name, start = key.split("/")
                seen |= {(name, int(start) + frame) for frame in range(CLIP)}
    print(f"{count} clips of {CLIP} frames from 6 films, {len(seen)} of {sum(range(24, 30))} frames are in them")


if __name__ == "__main__":
    main()
