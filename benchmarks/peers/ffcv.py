"""FFCV: its own .beton file, in jpg mode and as raw pixels, two workers, its own random-resized crop (area resize)."""

import data

VERSIONS = ["ffcv", "torch"]
PREPARED = {"plain": "photos.beton", "raw": "raw.beton"}


def prepare(row, folder):
    import io

    import numpy as np
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter
    from PIL import Image

    kind, mode = ("photos", "jpg") if row == "plain" else ("raw", "raw")
    samples = list(data.pairs(folder, kind))

    class Pictures:
        def __len__(self):
            return len(samples)

        def __getitem__(self, number):
            return np.array(Image.open(io.BytesIO(samples[number][0]))), samples[number][1]

    path = str(folder / PREPARED[row])
    fields = {"image": RGBImageField(write_mode=mode, jpeg_quality=94), "label": IntField()}
    DatasetWriter(path, fields, num_workers=1).from_indexed_dataset(Pictures())


def loader(folder, name, decoder):
    from ffcv.fields.basics import IntDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip, ToTensor

    pipelines = {"image": [decoder, RandomHorizontalFlip(), ToTensor()], "label": [IntDecoder(), ToTensor()]}
    return Loader(
        str(folder / name),
        batch_size=64,
        num_workers=2,
        order=OrderOption.SEQUENTIAL,
        os_cache=True,
        pipelines=pipelines,
    )


def jpg(folder):
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder

    return loader(folder, "photos.beton", RandomResizedCropRGBImageDecoder((224, 224)))


def raw(folder):
    from ffcv.fields.rgb_image import CenterCropRGBImageDecoder

    return loader(folder, "raw.beton", CenterCropRGBImageDecoder((224, 224), ratio=224 / 256))


ROWS = {"plain": {"FFCV, jpg mode, 2 workers": jpg}, "raw": {"FFCV, raw mode, 2 workers": raw}}
