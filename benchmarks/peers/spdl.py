"""SPDL: its thread pipeline over files in folders; simplejpeg + OpenCV do the work, two threads.

SPDL's own decoder needs FFmpeg's shared libraries on the system; with plain functions its pipeline runs anywhere.
"""

VERSIONS = ["spdl", "simplejpeg", "opencv-python-headless"]
PREPARED = {"plain": "imagefolder"}


def prepare(row, folder):
    import lab

    lab.load("imagefolder").prepare(row, folder)


def opencv(folder):
    import crops
    import cv2
    import numpy as np
    from spdl.pipeline import PipelineBuilder

    cv2.setNumThreads(1)
    paths = sorted(map(str, (folder / "imagefolder").glob("*/*.jpg")))

    def decode(path):
        with open(path, "rb") as file:
            return crops.with_opencv(file.read())

    def batch(images):
        return [np.stack(images)]

    builder = PipelineBuilder().add_source(iter(paths)).pipe(decode, concurrency=2).aggregate(64).pipe(batch)
    pipeline = builder.add_sink(4).build(num_threads=2)
    with pipeline.auto_stop():
        yield from pipeline.get_iterator(timeout=60)


ROWS = {"plain": {"SPDL, simplejpeg + OpenCV, 2 threads": opencv}}
