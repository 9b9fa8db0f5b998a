"""Fields in a format of your own: how to write them and how to decode them.

    python examples/custom_decoder.py

A decoder is a function of an extension (with its dot) and the bytes; None means "not mine, ask the next one".
"""

import io
import struct
import tempfile

import numpy as np

import webdataset as wds


def encode_track(points):
    """Positions as pairs of 16-bit numbers behind their count: the extension will be `track`."""
    return struct.pack("<I", len(points)) + np.asarray(points, "<i2").tobytes()


def decode_track(key, data):
    """Ours to decode if the field's name ends in `.track`."""
    if not key.endswith(".track"):
        return None
    (count,) = struct.unpack_from("<I", data)
    return np.frombuffer(data, "<i2", offset=4).reshape(count, 2)


def count_lines(data):
    """For one extension it is enough to take the bytes."""
    return sum(1 for _ in io.BytesIO(data))


def main():
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        shard = f"{folder}/tracks.tar"
        with wds.TarWriter(shard) as sink:
            for number in range(5):
                points = rng.integers(-100, 100, (int(rng.integers(2, 6)), 2)).cumsum(0)
                log = "".join(f"passed {x},{y}\n" for x, y in points)
                sink.write(
                    {"__key__": f"walk{number}", "left.track": encode_track(points), "log": log, "cls": number % 2}
                )
        dataset = wds.WebDataset(shard, shardshuffle=False).decode(
            decode_track,
            wds.handle_extension("log", count_lines),
        )
        for sample in dataset:
            track = sample["left.track"]
            assert len(track) == sample["log"]
            print(f"{sample['__key__']}: class {sample['cls']}, {len(track)} points, ends at {track[-1].tolist()}")


if __name__ == "__main__":
    main()
