"""What `repair` writes is good, holds everything that could be saved, and nothing that was damaged."""

import itertools
import json
import subprocess
import tarfile

import pytest

from tests.tools.faults import FAULTS, END, PICTURE, good, member, sample
from tests.tools.referees import interpreter, program
from webdataset.errors import SpecError
from webdataset.index import index_shards, load_index
from webdataset.samples import read_shard
from webdataset.testing import make_shard
from webdataset.tools import CheckOptions, Deed, Kind, Target, check, repair

GOOD = {f"{number:04d}": {"cls": b"7", "jpg": PICTURE, "json": b'{"a": 1}'} for number in range(12)}
# Nothing can be saved of these.
HOPELESS = {"nothing", "a web page", "a zip", "an empty archive", "folders only"}


def repaired(folder, data, options=CheckOptions(), name="a.tar"):
    shard = folder / name
    shard.write_bytes(data)
    (result,) = repair([str(shard)], str(folder / "out") + "/", options)
    return result


def samples_of(path):
    own = {"__key__", "__url__", "__local_path__"}
    return {
        each["__key__"]: {name: value for name, value in each.items() if name not in own} for each in read_shard(path)
    }


def quarantined(result):
    if result.quarantine is None:
        return {}
    with tarfile.open(result.quarantine) as archive:
        return {info.name: archive.extractfile(info).read() for info in archive}


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in HOPELESS])
def test_a_repaired_shard_is_good_and_complete(tmp_path, name):
    fault = FAULTS[name]
    result = repaired(tmp_path, fault.shard, fault.options)
    assert result.remaining == () or {f.kind for f in result.remaining} <= unrepairable(fault)
    if result.output is None:
        assert "compress" in fault.kind.value  # too small to have come out of the decompressor before the fault
        return
    saved = samples_of(result.output)
    aside = {name.partition(".")[0] for name in quarantined(result)}
    assert len(saved) == result.saved
    for key, fields in GOOD.items():
        if sample(key) in fault.shard:
            assert key in saved or key in aside
        if key in saved:
            assert saved[key] == fields
    listing = subprocess.run(["tar", "-tf", result.output], capture_output=True, text=True, check=True)
    assert listing.stderr == ""
    extracted = tmp_path / "extracted"
    extracted.mkdir()
    if not long_names(result.output):
        subprocess.run(["tar", "-xf", result.output, "-C", str(extracted)], check=True, capture_output=True)
        assert len([path for path in extracted.rglob("*") if path.is_file()]) == sum(map(len, saved.values()))


def unrepairable(fault):
    """Names and fields that are the user's to change."""
    return {fault.kind} if fault.options.targets or fault.options.fields else set()


def long_names(path):
    with tarfile.open(path) as archive:
        names = archive.getnames()
        return any(len(part) > 255 for name in names for part in name.split("/")) or any(
            other.startswith(f"{name}/") for name in names for other in names
        )


@pytest.mark.parametrize("name", sorted(HOPELESS))
def test_without_samples_nothing_is_written(tmp_path, name):
    result = repaired(tmp_path, FAULTS[name].shard)
    assert (result.output, result.saved) == (None, 0)
    assert not list((tmp_path / "out").iterdir())


def test_a_damaged_sample_is_set_aside_with_its_reason(tmp_path):
    result = repaired(tmp_path, good() + sample("x", cls=b"seven", jpg=PICTURE, json=b"1") + END)
    assert (result.saved, result.aside) == (6, 1)
    aside = quarantined(result)
    assert aside["x.cls"] == b"seven"
    assert "cannot be decoded" in json.loads(aside["__meta__/reasons.json"])["x"]
    assert [action.deed for action in result.actions] == [Deed.SET_ASIDE]


def test_interleaved_members_are_put_together(tmp_path):
    shard = b"".join(member(f"{key}.{field}", field.encode()) for field in ("aa", "bb") for key in "123")
    result = repaired(tmp_path, shard + END)
    assert samples_of(result.output) == {key: {"aa": b"aa", "bb": b"bb"} for key in "123"}


def test_links_to_members_become_copies(tmp_path):
    links = member("d/x.jpg", kind=b"1", link="0001.jpg") + member("d/x.cls", kind=b"2", link="../0001.cls")
    result = repaired(tmp_path, good() + links + member("d/x.json", b'{"a": 1}') + END)
    assert samples_of(result.output)["d/x"] == GOOD["0001"]


def test_a_link_out_of_the_archive_costs_its_sample(tmp_path):
    links = member("x.jpg", kind=b"2", link="/etc/passwd") + member("x.cls", b"7")
    result = repaired(tmp_path, good() + links + END)
    assert "x" not in samples_of(result.output)
    assert result.aside == 1


def test_the_second_of_two_fields_is_kept_aside(tmp_path):
    result = repaired(tmp_path, good() + member("0005.cls", b"8") + END)
    assert samples_of(result.output)["0005"]["cls"] == b"7"
    assert quarantined(result)["0005.cls"] == b"8"


def test_names_that_become_equal_are_not_mixed(tmp_path):
    result = repaired(tmp_path, sample("x_y", txt=b"one") + sample("x\ny", txt=b"two") + END)
    assert samples_of(result.output) == {"x_y": {"txt": b"one"}}
    assert quarantined(result)["x_y.txt"] == b"two"


def test_keys_are_sorted_on_request(tmp_path):
    shard = b"".join(sample(key, txt=b"a") for key in "cab")
    result = repaired(tmp_path, shard + END, CheckOptions(in_order=True))
    assert list(samples_of(result.output)) == ["a", "b", "c"]


def test_an_indexed_shard_stays_indexed(tmp_path):
    (tmp_path / "a.tar").write_bytes(good() + END)
    index_shards([str(tmp_path / "a.tar")])
    result = repaired(tmp_path, good() + good(6) + bytes(512))
    assert len(load_index(result.output)) == 12
    assert check(result.output).ok


def test_outputs_are_not_replaced_by_accident(tmp_path):
    repaired(tmp_path, good())
    with pytest.raises(SpecError, match="exists already"):
        repaired(tmp_path, good())
    with pytest.raises(SpecError, match="would replace the damaged one"):
        repair([str(tmp_path / "a.tar")], str(tmp_path) + "/", force=True)
    with pytest.raises(SpecError, match="folder"):
        repair([str(tmp_path / "a.tar")], str(tmp_path / "b.tar"))


def test_a_shard_that_cannot_be_read_does_not_stop_the_others(tmp_path):
    (tmp_path / "a.tar").write_bytes(good())
    missing, saved = repair([str(tmp_path / "no.tar"), str(tmp_path / "a.tar")], f"{tmp_path}/out/")
    assert (missing.output, missing.saved, missing.actions[0].deed) == (None, 0, Deed.LOST)
    assert saved.saved == 6


def test_a_doubted_payload_is_kept_aside(tmp_path):
    changed = sample("x", bin=b"A" * 700)
    result = repaired(tmp_path, good() + changed[:900] + b"???" + changed[900:] + good(6) + END)
    assert result.saved == 12
    assert quarantined(result)["x.bin"][:300] == b"A" * 300


def test_bytes_flipped_anywhere_never_give_a_wrong_sample(tmp_path):
    """Every header byte of a sample in the middle, changed: the others stay, and the sample is right or set aside."""
    middle = sample("x", txt=b"hello", cls=b"5")
    for place in [*range(0, 512, 7), *range(1024, 1536, 7)]:
        changed = middle[:place] + bytes([middle[place] ^ 0x55]) + middle[place + 1 :]
        parts = b"".join(sample(f"{n}", txt=b"hello", cls=b"5") for n in range(3))
        result = repaired(tmp_path, parts + changed + parts.replace(b"0.", b"7.", 2) + END, name=f"{place}.tar")
        for fields in samples_of(result.output).values():
            assert fields == {"txt": b"hello", "cls": b"5"}


# --- other readers -----------------------------------------------------------------------------------------------

READABLE = ["cut in a payload", "a wrong checksum", "a wiped header", "bytes missing from a payload", "two archives",
            "garbage after the end", "a hard link", "a device", "a hidden file", "a reserved name", "an upper-case field",
            "a name in Latin-1", "a line break in a name", "an absolute name", "a name that leaves its folder",
            "a field twice", "interleaved keys", "bad JSON", "a cut picture", "no extension", "an empty extension"]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("module", ["datasets", "nvidia.dali"])
def test_what_was_repaired_is_read_by(tmp_path, module):
    python = interpreter(module)
    targets = frozenset({Target.HUGGING_FACE, Target.DALI})
    for row, name in enumerate(READABLE):
        result = repaired(
            tmp_path, FAULTS[name].shard, CheckOptions(targets=targets, fields=("cls", "jpg", "json")), f"{row}.tar"
        )
        expected = [(key, fields["cls"], len(fields["jpg"])) for key, fields in samples_of(result.output).items()]
        assert index_shards([result.output]).nsamples == len(expected)
        script = "read_with_hugging_face.py" if module == "datasets" else "read_two_fields_with_dali.py"
        output = subprocess.run(
            [python, str(program(script)), result.output, str(tmp_path / "cache")], capture_output=True, text=True
        )
        assert output.returncode == 0, output.stderr
        found = [json.loads(line) for line in output.stdout.splitlines() if line.startswith("[")]
        if module == "datasets":
            assert found == [[key, int(cls), size] for key, cls, size in expected], name
        else:
            assert found == [[cls.decode(), size] for _, cls, size in expected], name


@pytest.mark.long
def test_the_verdict_of_hugging_face_is_predicted(tmp_path):
    python = interpreter("datasets")
    refused = {Kind.HF_FIELDS, Kind.HF_TYPE}
    cases = {name: fault for name, fault in FAULTS.items() if fault.kind in refused}
    cases["good"] = None
    for row, (name, fault) in enumerate(cases.items()):
        shard = tmp_path / f"{row}.tar"
        shard.write_bytes(good() + good(6) + END if fault is None else fault.shard)
        report = check(str(shard), CheckOptions(targets=frozenset({Target.HUGGING_FACE})))
        done = subprocess.run(
            [python, str(program("read_with_hugging_face.py")), str(shard), str(tmp_path / "cache")],
            capture_output=True,
        )
        assert (done.returncode == 0) == report.ok == (fault is None), name


VALUES = (
    "null",
    "true",
    "1",
    "1.5",
    '"x"',
    "[1]",
    '["x"]',
    "[]",
    "[[1], []]",
    '{"a": 1}',
    '{"a": "x"}',
    '{"b": 1}',
    "{}",
)
LARGE = str(2**64 - 1)


def odd_shards(folder):
    """Shards with a value of one type in the first samples and of another among or after them: {path: values}."""
    pairs = [(a, b) for a in (*VALUES, LARGE) for b in VALUES]
    for number, ((a, b), before) in enumerate(itertools.product(pairs, (2, 6))):
        values = [f'{{"v": {value}}}' for value in (a,) * before + (b,)]
        shard = str(folder / f"{number}.tar")
        make_shard(shard, [{"__key__": f"{n}", "json": value.encode()} for n, value in enumerate(values)])
        yield shard, [json.loads(value) for value in values]


def kept(stored, loaded):
    """Whether a value came through: types as they were, whole numbers as floats, what is missing as None."""
    if isinstance(stored, dict) and isinstance(loaded, dict):
        return stored.keys() <= loaded.keys() and all(kept(stored.get(name), loaded[name]) for name in loaded)
    if isinstance(stored, list) and isinstance(loaded, list):
        return len(stored) == len(loaded) and all(map(kept, stored, loaded))
    return type(stored) is type(loaded) and stored == loaded or (type(stored), type(loaded)) == (int, float)


@pytest.mark.long
def test_what_hugging_face_refuses_or_changes_is_predicted(tmp_path):
    shards = dict(odd_shards(tmp_path))
    command = [interpreter("datasets"), str(program("load_with_hugging_face.py")), str(tmp_path / "cache"), *shards]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line[:1] in {"[", "n"}]
    wrong = []
    for (shard, stored), rows in zip(shards.items(), lines, strict=True):
        loads = rows is not None and all(map(kept, stored, [row["json"] for row in rows]))
        if loads != check(shard, CheckOptions(targets=frozenset({Target.HUGGING_FACE}))).ok:
            wrong.append((stored[0], stored[-1], len(stored), rows and rows[-1]))
    assert wrong == []
