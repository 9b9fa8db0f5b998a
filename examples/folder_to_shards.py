"""Turn a folder of class folders (as torchvision's ImageFolder reads it) into shards.

    python examples/folder_to_shards.py FOLDER OUT [--maxcount 1000] [--maxsize 1e9] [--seed 0] [--filekey]

Image files are copied byte for byte; `.cls` holds the number of the class. The order is shuffled once, here, so that
reading in sequence is already random. A small JSON beside the shards says how many there are, so nobody has to guess.
"""

import argparse
import json
import os
import random

import webdataset as wds

IMAGES = (".jpg", ".jpeg", ".png", ".webp")


def find_images(folder):
    """(path, class number) of every image, and the names of the classes."""
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    found = [
        (os.path.join(folder, name, file), number)
        for number, name in enumerate(classes)
        for file in sorted(os.listdir(os.path.join(folder, name)))
        if file.lower().endswith(IMAGES)
    ]
    return found, classes


def write(images, pattern, filekey, **limits):
    """Write the shards and return the brace notation that names them, and the number of samples."""
    with wds.ShardWriter(pattern, **limits) as sink:
        for number, (path, label) in enumerate(images):
            stem, extension = os.path.splitext(os.path.basename(path))
            with open(path, "rb") as stream:
                data = stream.read()
            key = stem.replace(".", "_") if filekey else f"{number:07d}"
            sink.write({"__key__": key, extension[1:].lower(): data, "cls": label})
    last = os.path.basename(pattern % (sink.shard - 1))
    first = os.path.basename(pattern % 0)
    return first.replace("000000", f"{{000000..{last.rpartition('-')[2][:6]}}}"), sink.total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("out")
    parser.add_argument("--maxcount", type=int, default=1000)
    parser.add_argument("--maxsize", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--filekey", action="store_true", help="name samples after their files instead of numbers")
    options = parser.parse_args()
    images, classes = find_images(options.folder)
    random.Random(options.seed).shuffle(images)
    os.makedirs(options.out, exist_ok=True)
    pattern = os.path.join(options.out, "shard-%06d.tar")
    shards, count = write(images, pattern, options.filekey, maxcount=options.maxcount, maxsize=options.maxsize)
    with open(os.path.join(options.out, "dataset.json"), "w") as stream:
        json.dump({"shards": shards, "samples": count, "classes": classes}, stream, indent=1)
    print(f"{count} images of {len(classes)} classes in {os.path.join(options.out, shards)}")


if __name__ == "__main__":
    main()
