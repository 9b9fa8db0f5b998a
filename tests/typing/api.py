"""Never run, only type-checked: what a user writes, as `mypy --strict` sees it (see `test_typing.py`)."""

from collections.abc import Iterator
from typing import Any, assert_type

import webdataset as wds


def double(samples: Iterator[int]) -> Iterator[int]:
    for sample in samples:
        yield 2 * sample


def use() -> None:
    dataset = wds.WebDataset("a-{0..3}.tar", shardshuffle=True, seed=1, handler=wds.warn_and_continue)
    assert_type(dataset, wds.WebDataset)
    assert_type(dataset.shuffle(100).decode("rgb").to_tuple("jpg", "cls").batched(4), wds.WebDataset)
    assert_type(dataset.map(len).select(bool).rename(a="b").slice(3), wds.WebDataset)
    assert_type(dataset.with_epoch(10).with_length(10), wds.WebDataset)
    assert_type(len(dataset), int)
    assert_type(dataset.state_dict(), dict[str, Any])

    pipeline = wds.DataPipeline(
        wds.SimpleShardList("a.tar"), wds.split_by_worker, wds.shuffle(10), wds.tarfile_to_samples(), double
    )
    assert_type(pipeline, wds.DataPipeline)
    assert_type(pipeline.compose(double), wds.DataPipeline)
    assert_type(wds.WebLoader(pipeline, num_workers=2, batch_size=None).unbatched(), wds.WebLoader)

    with wds.TarWriter("a.tar") as sink:
        assert_type(sink.write({"__key__": "0", "cls": 1}), int)
    with wds.ShardWriter("a-%06d.tar", maxcount=10) as shards:
        shards.write({"__key__": "0"})

    wds.pytorch_weights_only = False
    assert_type(wds.pytorch_weights_only, bool)
    assert_type(wds.__version__, str)
    error: type[Exception] = wds.WebDatasetError

    mixed = wds.mix([(dataset, 2.0), (pipeline, 1.0)], exhausted="repeat")
    mixed.set_weights([1.0, 1.0])
    wds.mix([(dataset, 1.0)], exhausted="for ever")  # type: ignore[arg-type]
    wds.gopen("a.tar").read()
    wds.gopen.gopen_schemes["file"]
    wds.gopen(3)  # type: ignore[arg-type]

    assert_type(dataset.decode("rgb8", size=224, crop="random", flip=True, layout="chw"), wds.WebDataset)
    dataset.decode("rgb8", sise=224)  # type: ignore[call-arg]
    dataset.decode("rgb8", crop="middle")  # type: ignore[arg-type]
    assert_type(dataset.packed(2048, "tokens", rows=8, overlong="cut"), wds.WebDataset)
    dataset.packed(2048, "tokens", row=8)  # type: ignore[call-arg]
    dataset.packed(2048, "tokens", overlong="shorten")  # type: ignore[arg-type]
    assert_type(dataset.bucketed([64, 32], boundaries=[100], length="text"), wds.WebDataset)
    dataset.bucketed(64, boundaries=[100], lenght="text")  # type: ignore[call-arg]
    dataset.shuffle(100, inital=10)  # type: ignore[call-arg]
    dataset.to_tuple("jpg", missing_is_eror=False)  # type: ignore[call-arg]
    dataset.rename_keys(("a", "b"), keep_unselected=1.5)  # type: ignore[arg-type]
    dataset.lmdb_cached("cache", map_size="1 TB")  # type: ignore[arg-type]

    wds.shuffle("many")  # type: ignore[arg-type]
    wds.nothing  # type: ignore[attr-defined]
