"""The same stream twice: as a list of stages, and as a chain of methods.

python examples/two_forms.py
"""

import tempfile

from shapes import samples

import webdataset as wds


def brightness(image):
    return float(image.mean())


def as_stages(shards):
    """Every step is visible: where shards come from, what happens to them, what happens to samples."""
    return wds.DataPipeline(
        wds.SimpleShardList(shards),
        wds.split_by_worker,
        wds.tarfile_to_samples(),
        wds.decode("rgb"),
        wds.to_tuple("jpg;png", "json"),
        wds.map_tuple(brightness, None),
        wds.batched(20),
    )


def as_methods(shards):
    """The usual order of steps is built in; methods add what comes after reading."""
    return (
        wds.WebDataset(shards, shardshuffle=False)
        .decode("rgb")
        .to_tuple("jpg;png", "json")
        .map_tuple(brightness, None)
        .batched(20)
    )


def main():
    with tempfile.TemporaryDirectory() as folder:
        with wds.ShardWriter(f"{folder}/shapes-%03d.tar", maxcount=50) as sink:
            for sample in samples(100):
                sink.write(sample)
        shards = f"{folder}/shapes-{{000..001}}.tar"
        first, second = list(as_stages(shards)), list(as_methods(shards))
    for (left, about), (right, _) in zip(first, second, strict=True):
        assert list(left) == list(right)
        print(f"{len(about)} images, {about[0]['shape']:>9} first, mean brightness {sum(left) / len(left):.3f}")
    print("both forms gave the same batches")


if __name__ == "__main__":
    main()
