"""The shards that the programs read."""

import pytest

import webdataset as wds


@pytest.fixture
def shards(tmp_path):
    """Three shards of four samples."""
    for shard in range(3):
        with wds.TarWriter(str(tmp_path / f"a-{shard}.tar")) as sink:
            for number in range(4):
                sink.write(
                    {
                        "__key__": f"{shard}{number}",
                        "txt": f"text {shard}{number}",
                        "cls": number,
                        "json": {"n": number},
                    }
                )
    return str(tmp_path / "a-{0..2}.tar")
