"""The dataset that the tests read."""

import pytest

import webdataset as wds


@pytest.fixture
def data(tmp_path):
    """Three shards of 4, 4 and 2 samples, with a description and indexes."""
    folder = tmp_path / "data"
    folder.mkdir()
    with wds.ShardWriter(
        f"{folder}/train-%06d.tar", maxcount=4, index=True, description=folder / "dataset.json"
    ) as sink:
        for number in range(10):
            sink.write({"__key__": f"{number:03d}", "cls": number, "txt": f"number {number}"})
    return folder
