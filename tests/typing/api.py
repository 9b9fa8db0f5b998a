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

    wds.shuffle("many")  # type: ignore[arg-type]
    wds.nothing  # type: ignore[attr-defined]
