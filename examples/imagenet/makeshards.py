"""Shards from an ImageFolder tree, DATA/SPLIT/CLASS/image: SHARDS/imagenet-SPLIT-000000.tar and so on.

    python makeshards.py --data data --shards shards --maxcount 1000 --jobs 8

Which image goes into which shard follows from the tree and the options, before anything is written. So shards are written
in parallel, each under a temporary name until it is complete, and a run that was stopped is started again with the same
command: complete shards are left as they are. Beside each shard lies its index; SHARDS/imagenet-SPLIT.json is the manifest:
a description that `WebDataset` takes in place of a list of shards, with the number of samples, the size and the MD5 sum of
each shard. SHARDS/classes.json gives the number of each class.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import random
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

import webdataset as wds
from webdataset.index import index_shards, write_description

EXTENSIONS = {".jpg", ".jpeg", ".png"}


class Image(NamedTuple):
    path: Path
    key: str
    number: int  # of its class
    size: int


def find_images(folder, classes):
    """Every image, in the order of the names; and the other files, which ImageFolder leaves out, too."""
    images, others, keys = [], [], set()
    for name, number in classes.items():
        for path in sorted(path for path in (folder / name).rglob("*") if path.is_file()):
            if path.suffix.lower() not in EXTENSIONS:
                others.append(path)
                continue
            key = str(path.relative_to(folder).with_suffix("")).replace(".", "_")
            while key in keys:  # cat.png beside cat.jpg: two samples
                key += "_"
            keys.add(key)
            images.append(Image(path, key, number, path.stat().st_size))
    return images, others


def plan_shards(images, maxcount, maxsize):
    """Lists of images, none with more than `maxcount` images or `maxsize` bytes (unless one image is larger)."""
    shard, size = [], 0
    for image in images:
        if shard and (len(shard) >= maxcount or size + image.size > maxsize):
            yield shard
            shard, size = [], 0
        shard.append(image)
        size += image.size
    if shard:
        yield shard


def write_shard(name, images, content):
    """Write one shard under a temporary name; it gets its own when it is complete, together with what it holds."""
    temporary = f"{name}.{os.getpid()}.part"
    try:
        with wds.TarWriter(temporary) as sink:
            for image in images:
                extension = image.path.suffix.lower()[1:].replace("jpeg", "jpg")
                sink.write({"__key__": image.key, extension: image.path.read_bytes(), "cls": image.number})
        index_shards([temporary], store_index=False)  # read again what was written: a full disk is found here
        os.replace(temporary, name)
        Path(f"{name}.content").write_text(content)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return name, len(images)


def content_of(images):
    """What a shard will hold, in one word: another tree or other options give another."""
    text = "\n".join(f"{image.key}{image.path.suffix} {image.number} {image.size}" for image in images)
    return hashlib.sha256(text.encode()).hexdigest()


def is_complete(name, content):
    note = Path(f"{name}.content")
    return Path(name).exists() and note.exists() and note.read_text() == content


def make_split(split, classes, args):
    folder = args.data / split
    images, others = find_images(folder, classes)
    if not images:
        raise SystemExit(f"no images ({', '.join(sorted(EXTENSIONS))}) found in {folder}")
    if others:
        print(
            f"{split}: {len(others)} files are left out, they are no images ({', '.join(sorted(EXTENSIONS))}): {others[0]} …"
        )
    if split not in args.unshuffled:
        random.Random(args.seed).shuffle(images)
    shards = [
        (f"{args.shards}/imagenet-{split}-{number:06d}.tar", part, content_of(part))
        for number, part in enumerate(plan_shards(images, args.maxcount, args.maxsize))
    ]
    missing = [(name, part, content) for name, part, content in shards if not is_complete(name, content)]
    with (
        ProcessPoolExecutor(args.jobs) as pool,
        tqdm(total=len(images), desc=split, unit="images", disable=args.quiet) as bar,
    ):
        bar.update(len(images) - sum(len(part) for _, part, _ in missing))
        for done in as_completed([pool.submit(write_shard, name, part, text) for name, part, text in missing]):
            bar.update(done.result()[1])
    names = [name for name, _, _ in shards]
    for stale in set(map(str, args.shards.glob(f"imagenet-{split}-*.tar"))) - set(names):  # of a run with other options
        for path in args.shards.glob(f"{Path(stale).stem}.*"):
            path.unlink()
    manifest = args.shards / f"imagenet-{split}.json"
    description = index_shards(names, workers=args.jobs, name=f"imagenet-{split}")
    # Addresses relative to the manifest: the folder can be moved or uploaded.
    entries = [shard._replace(url=Path(shard.url).name) for shard in description.shards]
    manifest.write_bytes(write_description(dataclasses.replace(description, shards=entries)))
    size = sum(Path(name).stat().st_size for name in names)
    print(f"{split}: {len(images)} images in {len(names)} shards, {size} bytes, {len(missing)} of them written now")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--shards", type=Path, default=Path("shards"))
    parser.add_argument("--splits", nargs="+", default=["train", "val"])
    parser.add_argument("--unshuffled", nargs="*", default=["val"], help="splits that keep the order of the tree")
    parser.add_argument("--maxcount", type=int, default=1000, help="images in a shard, at most")
    parser.add_argument("--maxsize", type=float, default=1e9, help="bytes of images in a shard, at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quiet", action="store_true", help="no progress bars")
    args = parser.parse_args()
    for split in args.splits:
        if not (args.data / split).is_dir():
            raise SystemExit(f"the folder {args.data / split} was not found; expected {args.data}/SPLIT/CLASS/image")
    # The classes of the first split number those of all.
    names = sorted(path.name for path in (args.data / args.splits[0]).iterdir() if path.is_dir())
    classes = {name: number for number, name in enumerate(names)}
    args.shards.mkdir(parents=True, exist_ok=True)
    (args.shards / "classes.json").write_text(json.dumps(classes, indent=1))
    for split in args.splits:
        unknown = {path.name for path in (args.data / split).iterdir() if path.is_dir()} - set(names)
        if unknown:
            raise SystemExit(
                f"{args.data / split} has classes that {args.splits[0]} does not have: {sorted(unknown)[:5]}"
            )
        make_split(split, classes, args)


if __name__ == "__main__":
    main()
