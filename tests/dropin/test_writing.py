"""How real programs write: each test does what one of them does, in our own words."""

import json
import tarfile

import webdataset as wds
from webdataset import autodecode


def test_lhotse_writes_bytes_through_a_pipe(tmp_path):
    target = tmp_path / "a.tar"
    sink = wds.TarWriter(f"pipe:cat > {target}")
    assert sink.write({"__key__": "cut", "data": b"12345"}) == 5
    sink.close()
    assert next(iter(wds.WebDataset(str(target), shardshuffle=False)))["data"] == b"12345"


def test_img2dataset_writes_to_an_open_file_and_json_as_text(tmp_path):
    path = tmp_path / "a.tar"
    with open(path, "wb") as stream:
        sink = wds.TarWriter(stream)
        sink.write({"__key__": "0", "jpg": b"jpeg", "txt": "caption", "json": json.dumps({"a": 1}, indent=4)})
        sink.close()
    assert json.loads(next(iter(wds.WebDataset(str(path), shardshuffle=False)))["json"]) == {"a": 1}


def test_aistore_takes_the_finished_shard_away(tmp_path):
    sent = []

    def post(name):
        with tarfile.open(name) as archive:
            sent.append((name, len(archive.getnames())))
        import os

        os.unlink(name)

    pattern = str(tmp_path / "out-%02d.tar")
    with wds.ShardWriter(
        pattern=pattern, maxcount=2, maxsize=1e6, post=post, start_shard=3, verbose=0, encoder=True
    ) as sink:
        for number in range(5):
            sink.write({"__key__": f"{number}", "cls": number})
    assert [(name[-6:-4], count) for name, count in sent] == [("03", 2), ("04", 2), ("05", 1)]
    assert list(tmp_path.iterdir()) == []


def test_clip_benchmark_counts_shards_before_closing(tmp_path):
    sink = wds.ShardWriter(str(tmp_path / "%d.tar"), maxcount=2, verbose=0)
    for number in range(3):
        sink.write({"__key__": f"{number}", "webp": b"x", "cls": number})
    assert sink.shard == 2
    sink.close()
    handler = autodecode.ImageHandler("pil", extensions=["webp"])
    assert handler(".jpg", b"") is None
    dataset = wds.WebDataset(str(tmp_path / "{0..1}.tar"), shardshuffle=False).to_tuple(["webp", "png"], ["cls"])
    assert [label for _, label in dataset] == [b"0", b"1", b"2"]
