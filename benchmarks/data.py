"""The data that all peers read: made once, in bench-data/, as plain tar shards (and as a folder of pictures).

* photos: 2,048 JPEGs of about 100 kB, 500 × 375, with labels; 128 different ones
* raw:    the same pictures, decoded, the shorter side brought to 256 and cut to 256 × 256, as PPM files
* jpegs:  4,000 JPEGs of about 100 kB and nothing else
* small:  300,000 samples of about 1 kB: json + npy
* tokens: 400,000 samples: one npy of 512 uint16
* blobs:  384 blobs of 4 MB
* small.gz, jpegs.gz: the first shard of these, packed as by `gzip -1`
"""

import functools
import gzip
import io
import json
import os
import shutil
import tarfile

import lab

COUNTS = {"photos": 2048, "jpegs": 4000, "raw": 8192, "small": 300_000, "tokens": 400_000, "blobs": 384}
if lab.SMALL:
    COUNTS = {"photos": 256, "jpegs": 256, "raw": 256, "small": 4096, "tokens": 2048, "blobs": 4}
SHARDS = {"photos": 4, "jpegs": 4, "raw": 4, "small": 8, "tokens": 4, "blobs": 2}
DIFFERENT = 8 if lab.SMALL else 128  # photos
KIND = {
    "limits": "photos",
    "small bytes": "small",
    "photo bytes": "jpegs",
    "antialiased": "photos",
    "plain": "photos",
    "float": "photos",
    "raw": "raw",
    "small": "small",
    "tokens": "tokens",
    "blobs": "blobs",
    "views": "jpegs",
    "small bytes, gzip": "small.gz",
    "photo bytes, gzip": "jpegs.gz",
    "index text": "tokens",
    "workers: json + npy": "small",
    "workers: npy": "small",
    "workers: raw": "raw",
    "workers: tokens": "tokens",
    "workers: token batches": "tokens",
    "workers: photo bytes": "jpegs",
    "workers: photos": "photos",
}


def count(row):
    kind, _, packed = KIND[row].partition(".")
    return COUNTS[kind] // (SHARDS[kind] if packed else 1)


def shards(folder, kind):
    kind, _, packed = kind.partition(".")
    paths = [str(folder / f"{kind}-{number}.tar") for number in range(SHARDS[kind])]
    return [f"{paths[0]}.{packed}"] if packed else paths


def generate(folder, row):
    folder.mkdir(exist_ok=True)
    kind, _, packed = KIND[row].partition(".")
    each = COUNTS[kind] // SHARDS[kind]
    for number, path in enumerate(shards(folder, kind)):
        if not os.path.exists(path):
            write(path, MEMBERS[kind](folder, range(number * each, (number + 1) * each)))
    if packed:
        pack(shards(folder, kind)[0], shards(folder, KIND[row])[0])


def pack(path, packed):
    if not os.path.exists(packed):
        with open(path, "rb") as source, gzip.open(f"{packed}.part", "wb", compresslevel=1) as sink:
            shutil.copyfileobj(source, sink)
        os.rename(f"{packed}.part", packed)


def write(path, members):
    with tarfile.open(f"{path}.part", "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, payload in members:
            info = tarfile.TarInfo(name)
            info.size = len(payload)
            tar.addfile(info, io.BytesIO(payload))
    os.rename(f"{path}.part", path)


@functools.cache
def photo(number):
    """Soft shapes under fine grain, as much of both as gives a JPEG of about 100 kB."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(number)
    picture = np.zeros((375, 500, 3))
    for cells in (3, 8, 20, 60):
        noise = Image.fromarray(rng.integers(0, 256, (cells, cells, 3), dtype="uint8"))
        picture += np.asarray(noise.resize((500, 375), Image.Resampling.BICUBIC)) / cells**0.5
    picture = 255 * (picture - picture.min()) / np.ptp(picture) + rng.normal(0, 12, picture.shape)
    encoded = io.BytesIO()
    Image.fromarray(picture.clip(0, 255).astype("uint8")).save(encoded, "JPEG", quality=94)
    return encoded.getvalue()


def photos(folder, numbers):
    for number in numbers:
        yield f"{number:08d}.jpg", photo(number % DIFFERENT)
        yield f"{number:08d}.cls", str(number % 1000).encode()


def jpegs(folder, numbers):
    return ((name, payload) for name, payload in photos(folder, numbers) if name.endswith(".jpg"))


@functools.cache
def ppm(number):
    from PIL import Image

    image = Image.open(io.BytesIO(photo(number))).convert("RGB").resize((341, 256), Image.Resampling.BILINEAR)
    return b"P6\n256 256\n255\n" + image.crop((42, 0, 298, 256)).tobytes()


def raw(folder, numbers):
    for number in numbers:
        yield f"{number:08d}.ppm", ppm(number % DIFFERENT)
        yield f"{number:08d}.cls", str(number % 1000).encode()


def small(folder, numbers):
    import numpy as np

    rng = np.random.default_rng(numbers[0])
    for number in numbers:
        text = {"id": number, "label": number % 1000, "caption": "a caption of some words " * 6}
        yield f"{number:08d}.json", json.dumps(text).encode()
        yield f"{number:08d}.npy", npy(rng.random(96))


def tokens(folder, numbers):
    import numpy as np

    rng = np.random.default_rng(numbers[0])
    for number in numbers:
        yield f"{number:08d}.npy", npy(rng.integers(0, 50_000, 512, dtype="uint16"))


def blobs(folder, numbers):
    for number in numbers:
        yield f"{number:08d}.bin", os.urandom(4_000_000)


def npy(array):
    import numpy as np

    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


MEMBERS = {"photos": photos, "jpegs": jpegs, "raw": raw, "small": small, "tokens": tokens, "blobs": blobs}


def pairs(folder, kind="photos"):
    """(bytes, label) of every sample, for peers that keep the data in a format of their own."""
    for path in shards(folder, kind):
        with tarfile.open(path) as tar:
            members = iter(tar)
            for member in members:
                yield tar.extractfile(member).read(), int(tar.extractfile(next(members)).read())
