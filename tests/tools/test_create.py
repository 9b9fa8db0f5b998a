"""`create`: every kind of source, sizes, order, parts, and bad input."""

import datetime
import decimal
import io
import json
import random
import shutil
import tarfile
import zipfile

import pytest

from tests.stores.fakes import send_object
from tests.tools.datasets import digests, keys, read
from webdataset import stores
from webdataset.errors import FormatError, ShardNotFound, SpecError, StoreError, UnsafeContent, WebDatasetError
from webdataset.index import load_index, read_description
from webdataset.testing import LoopbackServer
from webdataset.tools import Making, Options, Parts, create


def text(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


@pytest.fixture
def tree(here):
    """Files whose plain order is not that of samples, with upper case, folders and bystanders."""
    folder = here / "tree"
    for name in ("a.jpg", "a.txt", "a-b.jpg", "sub/a.JPG", "sub/a.seg.png", "b.jpg"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    (folder / "README").write_text("no sample")
    (folder / ".hidden.jpg").write_text("no sample")
    return folder


TREE = {
    "a": {"jpg": b"a.jpg", "txt": b"a.txt"},
    "a-b": {"jpg": b"a-b.jpg"},
    "b": {"jpg": b"b.jpg"},
    "sub/a": {"jpg": b"sub/a.JPG", "seg.png": b"sub/a.seg.png"},
}


def test_recipe(here):
    (here / "x y.bin").write_bytes(b"\0\1")
    recipe = text(
        here / "recipe",
        "# comment",
        "",
        "a.txt  text:hello world",
        "a.bin x y.bin",
        '"b c.txt" pipe:printf hi',
        "d.bin 'x y.bin'",
        f"e.bin file:{here}/x%20y.bin",
    )
    report = create(recipe, "out.tar")
    assert report.samples_out == 4
    assert read("out.tar") == {
        "a": {"txt": b"hello world", "bin": b"\0\1"},
        "b c": {"txt": b"hi"},
        "d": {"bin": b"\0\1"},
        "e": {"bin": b"\0\1"},
    }


def test_recipe_with_separator_and_folder(here):
    (here / "data").mkdir()
    (here / "data" / "f").write_text("1")
    create(text(here / "recipe", "a b.txt\tf"), "out.tar", making=Making(separator="\t", folder="data"))
    assert read("out.tar") == {"a b": {"txt": b"1"}}


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("tsv", '__key__\tcls\ttxt\t@bin\nx\t3\ta "b\tfile\ny\t4\t\tfile\n'),
        ("csv", '__key__,cls,txt,@bin\nx,3,"a ""b",file\ny,4,,file\n'),
        (
            "jsonl",
            '{"__key__": "x", "cls": 3, "txt": "a \\"b", "@bin": "file"}\n\n'
            '{"__key__": "y", "cls": 4, "txt": "", "@bin": "file"}\n',
        ),
    ],
)
def test_tables(here, kind, content):
    (here / "file").write_bytes(b"\0")
    (here / f"table.{kind}").write_text(content)
    create(f"table.{kind}", "out.tar")
    assert read("out.tar") == {
        "x": {"cls": b"3", "txt": b'a "b', "bin": b"\0"},
        "y": {"cls": b"4", "txt": b"", "bin": b"\0"},
    }


def test_a_table_from_a_server_reads_no_file_of_this_machine(here, monkeypatch):
    """But those of a folder that the user gives; nor do the user's credentials go to hosts that any table names."""
    (here / "given").mkdir()
    for file in ("given/file", "private"):
        (here / file).write_text("private")
    asked = []

    def respond(handler):
        asked.append(handler.headers.get("Authorization"))
        send_object(handler, table if handler.path == "/t.tsv" else b"from the server")

    (here / "netrc").write_text("machine 127.0.0.1 login me password secret")
    (here / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(here / "netrc"))
    with LoopbackServer(respond) as server:
        for name in (
            "private",
            "./private",
            f"{here}/private",
            f"file:{here}/private",
            "given/file",
            "file:private",
            "-",
        ):
            table = f"@txt\n{name}\n".encode()
            with pytest.raises(UnsafeContent):
                create(server.url("t.tsv"), "out.tar")
        for name in ("../private", f"{here}/private", f"file:{here}/private", "x/../../private", "file:%2e%2e/private"):
            table = f"@txt\n{name}\n".encode()
            with pytest.raises(UnsafeContent):
                create(server.url("t.tsv"), "out.tar", making=Making(folder="given"))
        table = b"@txt\nfile\n"
        create(server.url("t.tsv"), "out.tar", making=Making(folder="given"))
        assert set(asked) == {"Basic bWU6c2VjcmV0"}  # for what the user wrote
        asked.clear()
        (here / "t.tsv").write_text(f"@txt\n{server.url('a')}\n")
        for folder in (None, "given"):
            create("t.tsv", f"out-{folder}.tar", making=Making(folder=folder))
        assert asked == [None, None]
        stores.close_connections()


def test_a_recipe_from_a_server_runs_nothing_and_reads_no_file_of_this_machine(here):
    """One of this machine does, and may run commands."""
    (here / "private").write_text("private")
    with LoopbackServer(lambda handler: send_object(handler, recipe)) as server:
        for source in (
            "pipe:touch marker",
            "PIPE:touch marker",
            "private",
            f"{here}/private",
            f"file:{here}/private",
            "-",
        ):
            recipe = f"a.txt {source}\n".encode()
            with pytest.raises(UnsafeContent):
                create(server.url("recipe.txt"), "out.tar")
        recipe = b"a.txt text:hello\n"
        create(server.url("recipe.txt"), "out.tar")
        stores.close_connections()
    assert read("out.tar") == {"a": {"txt": b"hello"}} and not (here / "marker").exists()
    (here / "recipe.txt").write_bytes(b"a.txt pipe:printf hello\n")
    create("recipe.txt", "own.tar")
    assert read("own.tar") == read("out.tar")


def test_jsonl_values(here):
    (here / "t.jsonl").write_text('{"json": {"a": [1]}, "txt": null, "x": true}\n')
    create("t.jsonl", "out.tar", making=Making(key="row-{record:02d}"))
    assert read("out.tar") == {"row-00": {"json": b'{"a": [1]}', "x": b"true"}}


def test_table_without_header(here):
    (here / "lines").write_text("one\t1\ntwo\t2\n")
    create("lines", "out.tar", making=Making(format="tsv", columns=("txt", "cls")))
    assert read("out.tar")["000000001"] == {"txt": b"two", "cls": b"2"}


@pytest.mark.parametrize("inputs", [["t.csv", "t.parquet"], ["t.parquet", "t.csv"], ["t.parquet", "u.parquet"]])
def test_a_key_of_two_tables_is_an_error_in_any_order(here, inputs):
    """Also of tables whose rows are not all kept in memory."""
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"__key__": ["a"], "txt": ["x"]}), "t.parquet")
    shutil.copy("t.parquet", "u.parquet")
    text(here / "t.csv", "__key__,txt", "a,y")
    with pytest.raises(FormatError, match="used twice"):
        create(inputs, "out.tar")


def test_parquet(here):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet

    table = arrow.table({"__key__": ["a", "b"], "jpg": [{"bytes": b"1", "path": "x"}, None], "cls": [1, 2]})
    pyarrow.parquet.write_table(table, "t.parquet")
    create("t.parquet", "out.tar")
    assert read("out.tar") == {"a": {"jpg": b"1", "cls": b"1"}, "b": {"cls": b"2"}}


def test_values_of_parquet_that_json_does_not_have(here):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet

    day = datetime.date(2026, 1, 2)
    values = {"date": day, "took": datetime.timedelta(seconds=1), "price": decimal.Decimal("1.50"), "days": [day]}
    pyarrow.parquet.write_table(arrow.Table.from_pylist([{"__key__": "a", **values}]), "t.parquet")
    create("t.parquet", "out.tar")
    assert read("out.tar") == {
        "a": {"date": b"2026-01-02", "took": b"0:00:01", "price": b"1.50", "days": b'["2026-01-02"]'}
    }
    pyarrow.parquet.write_table(arrow.table({"__key__": ["a"], "parts": [[b"1"]]}), "t.parquet")
    with pytest.raises(FormatError, match="has bytes in it.*row 1.*a column of their own"):
        create("t.parquet", "bytes.tar")


def test_tree(tree):
    report = create(str(tree), "out.tar")
    assert read("out.tar") == TREE
    assert keys("out.tar") == sorted(TREE)
    assert "README" in report.notes[0]


def test_zip_and_any_tar_give_what_the_folder_gives(tree, here):
    files = [path for path in tree.rglob("*") if path.is_file()]
    random.Random(1).shuffle(files)  # samples are torn apart
    with zipfile.ZipFile("files.zip", "w") as archive:
        for path in files:
            archive.write(path, path.relative_to(tree))
    for name, mode in (("files.tar", "w"), ("files.tar.gz", "w:gz"), ("files.tar.xz", "w:xz")):
        with tarfile.open(name, mode) as archive:
            for path in files:
                archive.add(path, f"./{path.relative_to(tree)}")
    create(str(tree), "0.tar")
    for number, name in enumerate(("files.zip", "files.tar", "files.tar.gz", "files.tar.xz"), 1):
        create(name, f"{number}.tar")
        assert (here / f"{number}.tar").read_bytes() == (here / "0.tar").read_bytes()


def test_image_folder(here):
    for name in ("dog/1.jpg", "cat/2.jpg", "cat/deep/1.jpg"):
        path = here / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    create("images", "out/train-%d.tar", making=Making(format="imagefolder"))
    assert json.loads((here / "out" / "classes.json").read_text()) == ["cat", "dog"]
    assert (here / "out" / "classes.json").read_text().endswith("]\n")
    found = read("out/train-0.tar")
    assert {key: sample["cls"] for key, sample in found.items()} == {"cat/2": b"0", "cat/deep/1": b"0", "dog/1": b"1"}
    (here / "images" / "stray.jpg").write_bytes(b"")
    with pytest.raises(SpecError, match="class"):
        create("images", "new.tar", making=Making(format="imagefolder"))


def test_every_image_of_a_folder_is_a_sample(here):
    """As for torchvision's ImageFolder, whatever dots are in the names; other files go along with their image only."""
    names = ["a/scan.0.JPG", "a/scan.1.JPG", "a/scan.1.json", "b.c/x.jpg", "b.c/x.png", "b.c/notes.txt"]
    for name in names:
        path = here / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    report = create("images", "out.tar", making=Making(format="imagefolder"))
    found = {key: sorted(field for field in sample if field[0] != "_") for key, sample in read("out.tar").items()}
    assert found == {
        "a/scan_0": ["cls", "jpg"],
        "a/scan_1": ["cls", "jpg", "json"],
        "b.c/x_jpg": ["cls", "jpg"],
        "b.c/x_png": ["cls", "png"],
    }
    assert "notes.txt" in report.notes[0]
    for name in ("scan_0.jpg", "scan_0.png"):  # two images would have one key
        (here / "images/a" / name).write_bytes(b"")
        with pytest.raises(FormatError, match="scan_0"):
            create("images", "new.tar", making=Making(format="imagefolder"))
        (here / "images/a" / name).unlink()


def test_links_in_an_image_folder(here):
    (here / "elsewhere").mkdir()
    (here / "elsewhere/1.jpg").write_bytes(b"1")
    (here / "images/a").mkdir(parents=True)
    (here / "images/a/2.jpg").write_bytes(b"2")
    (here / "images/a/2").write_bytes(b"a file without an extension")
    (here / "images/b").symlink_to(here / "elsewhere")
    create("images", "out.tar", making=Making(format="imagefolder"))
    assert {key: sample["cls"] for key, sample in read("out.tar").items()} == {"a/2": b"0", "b/1": b"1"}
    (here / "images/a/3.jpg").symlink_to(here / "nowhere")
    with pytest.raises(ShardNotFound, match="leads nowhere"):
        create("images", "new.tar", making=Making(format="imagefolder"))


def many(here, count=100):
    return text(here / "many", *[f"{n:04d}.txt text:{n}" for n in range(count)])


def test_sizes_index_and_description(here):
    report = create(many(here), "out/t-%03d.tar", Options(count=30))
    assert report.outputs == tuple(f"out/t-{n:03d}.tar" for n in range(4))
    assert read_description("out/t.json").counts == [30, 30, 30, 10]
    assert [len(load_index(url)) for url in report.outputs] == [30, 30, 30, 10]
    report = create(many(here), "eq/t-%03d.tar", Options(shards=3))
    assert read_description("eq/t.json").counts == [33, 33, 34]
    report = create(many(here), "sz/t-%03d.tar", Options(size=50))
    assert all(sum(len(s["txt"]) for s in read(url).values()) >= 50 for url in report.outputs[:-1])


def test_shuffle_is_a_permutation_that_the_seed_decides(here):
    orders = []
    for number, seed in enumerate((1, 1, 2)):
        create(many(here), f"{number}.tar", Options(seed=seed), Making(shuffle=True))
        orders.append(keys(f"{number}.tar"))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == [f"{n:04d}" for n in range(100)]
    assert orders[0] != sorted(orders[0])


def test_parts_by_list_and_share(here):
    text(here / "val.txt", "0003", "0005")
    parts = Parts({"val": frozenset({"0003", "0005"})}, {}, {"train": 0.5, "test": 0.5})
    report = create(many(here), "{part}-%d.tar", making=Making(parts=parts))
    found = {part: keys(f"{part}-0.tar") for part in ("train", "val", "test")}
    assert found["val"] == ["0003", "0005"]
    assert sorted(found["train"] + found["val"] + found["test"]) == [f"{n:04d}" for n in range(100)]
    assert 30 < len(found["train"]) < 70
    assert report.samples_out == 100
    assert read_description("val.json").nsamples == 2


# --- bad input ---------------------------------------------------------------------------------------------------

BAD = {
    "missing source": ("recipe", "a.txt text:1\nb.txt nowhere\n", ShardNotFound, r"nowhere.*recipe, line 2"),
    "no source": ("recipe", "a.txt\n", FormatError, "recipe, line 1"),
    "no extension": ("recipe", "readme text:1\n", FormatError, "recipe, line 1"),
    "twice": ("recipe", "a.txt text:1\na.TXT text:2\n", FormatError, "a.txt is given twice.*line 2"),
    "torn": ("recipe", "a.txt text:1\nb.txt text:2\na.cls text:3\n", FormatError, "not together.*line 1.*line 3"),
    "bad command": ("recipe", "a.txt pipe:exit 3\n", StoreError, "3"),
    "not text": ("recipe", b"\xff\xfe\x00 text:1\n", FormatError, "UTF-8"),
    "empty": ("recipe", "# nothing\n", SpecError, "no samples"),
    "columns": ("t.csv", "txt,cls\n1,2,3\n", FormatError, "expected 2 columns, got 3 – t.csv, line 2"),
    "header": ("t.csv", "txt,txt\n1,2\n", FormatError, "header"),
    "quotes": ("t.csv", 'txt\n"1\n', FormatError, "line"),
    "key twice": ("t.csv", "__key__,txt\na,1\na,2\n", FormatError, "'a' is used twice.*line 2.*line 3"),
    "key empty": ("t.csv", "__key__,txt\n,1\n", FormatError, "key is empty"),
    "field twice": ("t.csv", "@txt,txt\na,1\n", FormatError, "given twice"),
    "not JSON": ("t.jsonl", '{"txt": 1}\n{"txt"\n', FormatError, "line 2"),
    "not an object": ("t.jsonl", "[1]\n", FormatError, "expected an object, got list"),
    "empty row": ("t.jsonl", "{}\n", FormatError, "no fields"),
    "command in a table": ("t.jsonl", '{"@txt": "pipe:touch hacked"}\n', UnsafeContent, "pipe"),
    "missing file": ("t.tsv", "@txt\nnowhere\n", ShardNotFound, "nowhere.*t.tsv, line 2"),
    "not a zip": ("t.zip", "hello", FormatError, "zip"),
    "not a tar": ("t.tar", "hello" * 500, FormatError, "tar"),
    "dot in the key": ("t.csv", "__key__,txt\na.b,1\n", WebDatasetError, "a.b"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_error_and_writes_nothing(here, name):
    file, content, error, message = BAD[name]
    (here / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(error, match=message) as caught:
        create(file, "out/%d.tar")
    assert "\n" not in str(caught.value)
    assert not (here / "hacked").exists()
    assert digests(here / "out") == {}


def test_missing_files_can_be_left_out_and_are_reported(here):
    recipe = text(here / "r", "a.txt text:1", "b.txt nowhere", "c.txt text:3")
    report = create(recipe, "out.tar", making=Making(missing="skip"))
    assert keys("out.tar") == ["a", "c"]
    assert [failure.item for failure in report.failed] == ["b"]
    assert (report.samples_in, report.samples_out) == (3, 2)


def test_existing_outputs_are_refused_and_stale_ones_are_removed_by_force(here):
    create(many(here, 10), "t-%d.tar", Options(count=2))
    before = digests(here)
    with pytest.raises(SpecError, match="exists"):
        create(many(here, 4), "t-%d.tar", Options(count=2))
    assert digests(here) | {"many": ""} == before | {"many": ""}
    create(many(here, 4), "t-%d.tar", Options(count=2, force=True))
    assert sorted(path.name for path in here.glob("t*")) == ["t-0.idx", "t-0.tar", "t-1.idx", "t-1.tar", "t.json"]


def test_unwritable_place(here):
    with pytest.raises(WebDatasetError, match="directory|folder|permission|system"):
        create(many(here), "/proc/nothing/out.tar")


def test_full_disk(here):
    with pytest.raises(OSError, match="the disk is full"):
        create(many(here), "/dev/full")


def test_dry_run_writes_nothing(here):
    report = create(many(here), "out-%d.tar", Options(dry_run=True))
    assert report.outputs == ("out-%d.tar",)
    assert list(here.iterdir()) == [here / "many"]


def test_the_same_bytes_every_time(tree, here):
    for name in ("a", "b"):
        create(str(tree), f"{name}/t-%d.tar", Options(count=2, seed=3), Making(shuffle=True))
    assert digests(here / "a") == digests(here / "b")


def test_gnu_tar_reads_it(tree, here):
    create(str(tree), "out.tar")
    with tarfile.open(fileobj=io.BytesIO((here / "out.tar").read_bytes())) as archive:
        assert archive.getnames()[:2] == ["a.jpg", "a.txt"]
