"""DALI on the CPU: its webdataset reader over the same tar shards, its own decoder with random crop, two threads."""

import subprocess
import sys

import data

VERSIONS = ["nvidia-dali-cuda120"]
PREPARED = {"antialiased": "dali", "plain": "dali", "float": "dali"}


def prepare(row, folder):
    place = folder / "dali.part"
    place.mkdir(exist_ok=True)
    for path in data.shards(folder, "photos"):
        tool = sys.executable.rpartition("/")[0] + "/wds2idx"
        index = place / f"{path.rpartition('/')[2]}.idx"
        subprocess.run([tool, path, str(index)], check=True, stdout=subprocess.DEVNULL)
    place.rename(folder / "dali")


def photos(folder, antialias=True, floats=False):
    import numpy as np
    from nvidia.dali import fn, pipeline_def, types

    paths = data.shards(folder, "photos")
    indexes = [str(folder / "dali" / f"{path.rpartition('/')[2]}.idx") for path in paths]

    @pipeline_def(batch_size=64, num_threads=2, device_id=None, prefetch_queue_depth=2)
    def pipeline():
        jpeg, label = fn.readers.webdataset(
            paths=paths, index_paths=indexes, ext=["jpg", "cls"], missing_component_behavior="error", name="reader"
        )
        image = fn.decoders.image_random_crop(jpeg, device="cpu", random_area=[0.08, 1.0])
        image = fn.resize(image, size=[224, 224], interp_type=types.INTERP_LINEAR, antialias=antialias)
        flip = fn.random.coin_flip(probability=0.5)
        if floats:
            mean, std = [255 * each for each in (0.485, 0.456, 0.406)], [255 * each for each in (0.229, 0.224, 0.225)]
            image = fn.crop_mirror_normalize(
                image, mirror=flip, mean=mean, std=std, dtype=types.FLOAT, output_layout="CHW"
            )
        else:
            image = fn.flip(image, horizontal=flip)
        return image, label

    running = pipeline()
    running.build()
    for _ in range(data.COUNTS["photos"] // 64):
        images, _labels = running.run()
        yield [np.asarray(images.as_tensor())]  # a view: DALI hands its batches on without copying them


ROWS = {
    "antialiased": {"DALI CPU, antialiased, 2 threads": photos},
    "plain": {"DALI CPU, plain, 2 threads": lambda folder: photos(folder, antialias=False)},
    "float": {"DALI CPU, antialiased, 2 threads": lambda folder: photos(folder, floats=True)},
}
