"""Training without epochs: draw shards at random for ever, and cut the stream into "epochs" of a chosen length.

    python examples/resampled_epochs.py

With many workers and nodes nobody has to agree on who reads what, and all take the same number of steps.
"""

import collections
import tempfile
from itertools import islice

from shapes import NAMES, samples

import webdataset as wds


def main():
    with tempfile.TemporaryDirectory() as folder:
        with wds.ShardWriter(f"{folder}/shapes-%03d.tar", maxcount=20) as sink:
            for sample in samples(200, size=16):
                sink.write(sample)
        shards = f"{folder}/shapes-{{000..009}}.tar"

        print("ten draws:", [shard["url"][-7:-4] for shard in islice(wds.ResampledShards(shards), 10)])

        dataset = wds.DataPipeline(
            wds.ResampledShards(shards),
            wds.tarfile_to_samples(),
            wds.shuffle(100),
            wds.decode(),
            wds.to_tuple("cls"),
            wds.batched(25),
        ).with_epoch(12)
        for epoch in range(3):
            seen = collections.Counter(int(label) for (labels,) in dataset for label in labels)
            top = ", ".join(f"{NAMES[label]} {count}" for label, count in seen.most_common(3))
            print(f"epoch {epoch}: {sum(seen.values())} samples in 12 batches; most often {top}")
            assert sum(seen.values()) == 300


if __name__ == "__main__":
    main()
