"""What beginners get wrong: a clear error or warning that names what to do."""

from pathlib import Path

import numpy as np
import pytest

import webdataset as wds
from webdataset.errors import EncodingError, SpecError
from webdataset.testing import make_shard


@pytest.fixture
def shard(tmp_path):
    rows = [{"__key__": str(n), "txt": "hello", "cls": n, "npy": np.arange(n + 1)} for n in range(6)]
    return make_shard(tmp_path / "a.tar", rows)


def test_map_tuple_on_a_dict(shard):
    with pytest.raises(SpecError, match=r"needs tuples and got a dict.*to_tuple.*map_dict"):
        list(wds.WebDataset(shard).map_tuple(len))


VERBS_OF_FIELDS = {
    "map_dict": lambda d: d.map_dict(txt=len),
    "rename": lambda d: d.rename(text="txt"),
    "rename keep": lambda d: d.rename(keep=False, text="txt"),
    "rename_keys": lambda d: d.rename_keys(text="txt"),
    "extract_keys": lambda d: d.extract_keys("txt"),
    "to_tuple": lambda d: d.to_tuple("txt"),
    "xdecode": lambda d: d.xdecode(),
    "associate": lambda d: d.compose(wds.associate({})),
}


@pytest.mark.parametrize("verb", VERBS_OF_FIELDS)
@pytest.mark.parametrize("kind", ["tuple", "list"])
def test_a_verb_of_fields_on_a_tuple_or_a_list(verb, kind, shard):
    """Whatever Python says of it (arrays are not hashable, a tuple has no items, …): one message."""
    named = wds.WebDataset(shard).decode()
    given = named.to_tuple("npy", "txt") if kind == "tuple" else named.listed(2)
    with pytest.raises(SpecError, match=rf"{verb.split()[0]} needs samples .* got a {kind} .*before .to_tuple\(\)"):
        list(VERBS_OF_FIELDS[verb](given))


def test_lengths_and_rows_of_tuples(shard):
    pairs = wds.WebDataset(shard).decode().to_tuple("npy", "txt")
    with pytest.raises(SpecError, match=r"a tuple, which has no field 'npy'.*length=0"):
        list(pairs.bucketed(2, boundaries=(3,), length="npy"))
    with pytest.raises(SpecError, match=r"packed\(10, 'npy'\) got a tuple.*before .to_tuple\(\)"):
        list(pairs.packed(10, "npy"))
    with pytest.raises(SpecError, match=r"packed\(fields=0\): expected the names of fields"):
        pairs.packed(10, 0)


def test_a_dataset_is_not_a_list_of_datasets(shard):
    for verb in (wds.mix, wds.RoundRobin, wds.RandomMix):
        with pytest.raises(SpecError, match="expected a list of datasets"):
            verb(wds.WebDataset(shard))


def test_shards_to_index_are_named_as_everywhere(tmp_path):
    for name in "ab":
        make_shard(tmp_path / f"{name}.tar", [{"__key__": name, "txt": "x"}])
    for spec in (f"{tmp_path}/{{a,b}}.tar", f"{tmp_path}/*.tar", [str(tmp_path / "a.tar"), str(tmp_path / "b.tar")]):
        assert [entry.nsamples for entry in wds.index_shards(spec).shards] == [1, 1]
    assert len(wds.index_shards(tmp_path / "a.tar").shards) == 1
    with pytest.raises(FileNotFoundError, match=r"c\.tar"):
        wds.index_shards(str(tmp_path / "c.tar"))


def test_a_batch_that_is_not_there(shard):
    same = make_shard(shard + ".same", [{"__key__": str(n), "npy": np.arange(3)} for n in range(5)])
    with pytest.raises(IndexError, match="there is no batch 3: there are 3"):
        wds.ArrayBatches(same, batchsize=2)[3]


@pytest.mark.parametrize(
    "open_it", [lambda s, f: wds.WebDataset(s, index=True, fields=f), lambda s, f: wds.IndexedDataset(s, fields=f)]
)
def test_a_misspelt_field(open_it, shard):
    with pytest.warns(UserWarning, match=r"has jgp; its fields are cls, npy, txt"):
        open_it(shard, ["jgp", "cls"])
    assert len(open_it(shard, ["CLS", "__key__"])) == 6


@pytest.mark.parametrize(
    "path", ["images/0001.JPG", "0001.jpeg", "https://h/a.png", "C:\\\\a.mp4", "a b.flac", Path("a.bin")]
)
@pytest.mark.parametrize("field", ["jpg", "seg.png", "mp4", "flac", "jpg.gz"])
def test_a_path_in_place_of_a_file(field, path, tmp_path):
    with wds.TarWriter(str(tmp_path / "w.tar")) as sink:
        with pytest.raises(EncodingError, match=r"expected the content of the file, got the path.*read_bytes"):
            sink.write({"__key__": "a", field: path})
        sink.write({"__key__": "a", "txt": str(path), field: "no name of a file"})


def forgets(sample):
    sample["n"] = 1


def forgets_sometimes(sample):
    if sample["cls"] == b"1":
        return sample


def never_returns(sample):
    raise ValueError


class WithMethod:
    def forgets(self, sample):
        sample["n"] = 1


@pytest.mark.parametrize("function", [forgets, lambda sample: None, WithMethod().forgets])
def test_a_function_without_return(function, shard):
    with pytest.warns(UserWarning, match=r"leaves every sample out: the function returns None; end it with `return"):
        wds.WebDataset(shard).map(function)


@pytest.mark.parametrize(
    "function",
    [
        forgets_sometimes,
        never_returns,
        len,
        str.upper,
        wds.Decoder([]),
        lambda sample: sample,
        lambda sample: sample or None,
    ],
)
def test_other_functions_are_not_suspected(function, shard, recwarn):
    wds.WebDataset(shard).map(function)
    assert not recwarn.list


@pytest.mark.parametrize(("decoded", "field", "said"), [
    (True, "tokens", r"packed\(10, 'tokens'\) got \['__key__'.*name a field that it has"),
    (False, "npy", r"needs a sequence of numbers, got bytes.*decode"),
    (True, "txt", r"needs a sequence of numbers, got str.*decode"),
    (True, "cls", r"needs a sequence of numbers, got int"),
])  # fmt: skip
def test_packed_with_a_wrong_field(decoded, field, said, shard):
    dataset = wds.WebDataset(shard)
    with pytest.raises(SpecError, match=said):
        list((dataset.decode() if decoded else dataset).packed(10, field))
    assert len(list(dataset.decode().packed(10, "npy"))) == 3
    with pytest.raises(wds.SpecError, match="size"):
        dataset.packed("npy", 10)


def test_a_key_that_is_not_there(shard):
    with pytest.raises(
        KeyError, match=r"no sample 'x' among these 6; the first one is '0'; dataset.where\(number\).key"
    ):
        wds.IndexedDataset(shard)["x"]


def test_an_indexed_dataset_decodes_and_picks(tmp_path):
    shard = make_shard(
        tmp_path / "p.tar", [{"__key__": str(n), "png": np.zeros((8, 6, 3), np.uint8), "cls": n} for n in range(3)]
    )
    dataset = wds.IndexedDataset(shard).decode("rgb8", size=4).to_tuple("jpg;png", "cls")
    image, number = dataset[2]
    assert image.shape[:2] == (5, 4) and number == 2
    with pytest.raises(SpecError, match="cannot be left out"):
        wds.IndexedDataset(shard).decode(handler=wds.ignore_and_continue)
    with pytest.raises(SpecError, match="didn't find"):
        wds.IndexedDataset(shard).to_tuple("txt")[0]


@pytest.mark.parametrize("index", [True, None, "directory"])
def test_index_means_what_it_means_for_a_stream(index, tmp_path, shard):
    place = tmp_path / "indexes"
    place.mkdir()
    given = place if index == "directory" else index
    assert len(wds.IndexedDataset((each for each in [shard]), index=given)) == 6
    kept = list(place.iterdir()) if index == "directory" else list(tmp_path.glob("*.idx"))
    assert len(kept) == (0 if index is None else 1)
    with pytest.raises(SpecError, match="needs an index"):
        wds.IndexedDataset(shard, index=False)
    with pytest.raises(SpecError, match="index=3"):
        wds.IndexedDataset(shard, index=3)
