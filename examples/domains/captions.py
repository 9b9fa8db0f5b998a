"""Images and captions in the manner of open_clip: batches are made again from what all workers read.

python examples/domains/captions.py
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from shapes import NAMES, samples

import webdataset as wds


def tokenize(text, length=8):
    return [ord(letter) for letter in text.ljust(length)[:length]]


def main(workers=2):
    with tempfile.TemporaryDirectory() as folder:
        with wds.ShardWriter(f"{folder}/pairs-%03d.tar", maxcount=50) as sink:
            for sample in samples(200, size=24):
                caption = f"a {NAMES[sample['cls']]}"
                sink.write({"__key__": sample["__key__"], "jpg": sample["jpg"], "txt": caption})
        dataset = (
            wds.WebDataset(f"{folder}/pairs-{{000..003}}.tar", shardshuffle=True, index=False)
            .shuffle(50)
            .decode("rgb")
            .to_tuple("jpg", "txt", "__url__")
            .map_tuple(None, tokenize, None)
            .batched(20)
        )
        loader = wds.WebLoader(dataset, batch_size=None, num_workers=workers)
        mixed = loader.unbatched().shuffle(100).batched(40)
        pairs = shards = 0
        for images, tokens, urls in mixed:
            assert images.shape[1:] == (24, 24, 3) and len(tokens) == len(images)
            pairs += len(images)
            shards = max(shards, len(set(urls)))
    print(f"{pairs} pairs of 200, up to {shards} shards in a batch")


if __name__ == "__main__":
    main()
