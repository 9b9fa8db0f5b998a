"""SPDL: its thread pipeline with its own FFmpeg decoder; the crop is a filter, so that FFmpeg does all the work."""

import random

import data

VERSIONS = ["spdl", "spdl-io", "numpy"]
PREPARED = {"plain": "imagefolder"}


def prepare(row, folder):
    import lab

    lab.load("imagefolder").prepare(row, folder)


def ffmpeg(folder):
    import crops
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    paths = sorted(map(str, (folder / "imagefolder").glob("*/*.jpg")))

    def decode(path):
        x, y, w, h = crops.random_box(500, 375)
        flip = ",hflip" if random.random() < 0.5 else ""
        filters = f"crop={w}:{h}:{x}:{y}:exact=1,scale=224:224:flags=bilinear{flip},format=pix_fmts=rgb24"
        return spdl.io.decode_packets(spdl.io.demux_image(path), filter_desc=filters)

    def batch(frames):
        return [spdl.io.to_numpy(spdl.io.convert_frames(frames))]

    builder = PipelineBuilder().add_source(iter(paths)).pipe(decode, concurrency=2).aggregate(64).pipe(batch)
    pipeline = builder.add_sink(4).build(num_threads=2)
    with pipeline.auto_stop():
        yield from pipeline.get_iterator(timeout=60)


ROWS = {"plain": {"SPDL, FFmpeg bilinear, 2 threads": ffmpeg}}
