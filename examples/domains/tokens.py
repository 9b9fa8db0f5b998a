"""Text: token sequences side by side in rows of a fixed length. Long documents are split, nothing is thrown away.

python examples/domains/tokens.py
"""

import tempfile

import numpy as np

import webdataset as wds

ROW = 64


def documents(count=200, seed=0):
    rng = np.random.default_rng(seed)
    for number in range(count):
        length = int(rng.lognormal(3.5, 1))  # most are short, some are ten rows long
        yield {"__key__": f"{number:05d}", "tokens.npy": rng.integers(1, 1000, length, dtype=np.int32)}


def main():
    with tempfile.TemporaryDirectory() as folder:
        with wds.ShardWriter(f"{folder}/text-%03d.tar", maxcount=50, index=True) as sink:
            total = sum(len(sample["tokens.npy"]) for sample in documents() if not sink.write(sample))
        dataset = (
            wds.WebDataset(f"{folder}/text-{{000..003}}.tar", shardshuffle=True, seed=1)
            .shuffle(1000)
            .decode()
            .packed(ROW, "tokens.npy", overlong="split")
            .batched(8)
        )
        rows = kept = 0
        for batch in wds.WebLoader(dataset, batch_size=None, num_workers=0):
            rows += len(batch["tokens.npy"])
            kept += int((batch["segment_ids"] > 0).sum())  # segments keep attention within a document
    assert kept == total
    print(
        f"{total} tokens in {rows} rows of {ROW}: {kept} kept, {100 * kept / (rows * ROW):.1f}% of the rows are filled"
    )


if __name__ == "__main__":
    main()
