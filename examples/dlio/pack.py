"""Shards from the images that DLIO generated: FOLDER/{train,valid} into FOLDER/shards/{train,valid}.

python pack.py data/jpeg --maxcount 256
"""

import argparse
from pathlib import Path

import webdataset as wds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--maxcount", type=int, default=256, help="images in a shard, at most")
    args = parser.parse_args()
    for split in ("train", "valid"):
        images = sorted(path for path in (args.folder / split).rglob("*") if path.suffix in (".jpeg", ".png"))
        if not images:
            continue
        target = args.folder / "shards" / split
        target.mkdir(parents=True, exist_ok=True)
        with wds.ShardWriter(f"{target}/{split}-%06d.tar", maxcount=args.maxcount, index=True) as sink:
            for image in images:
                extension = "jpg" if image.suffix == ".jpeg" else "png"
                sink.write({"__key__": image.stem, extension: image.read_bytes()})
        print(f"{split}: {len(images)} images in {sink.shard} shards")


if __name__ == "__main__":
    main()
