"""Every planted fault is found, and good shards raise no alarm."""

import io
import shutil
import subprocess
import tarfile
from webdataset.tar import DamageKind
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import webdataset as wds
from tests.tools.faults import FAULTS, AROUND, END, good, sample
from webdataset.tools import CheckOptions, Kind, Severity, Target, check
from webdataset.tools._findings import MOST_OF_A_KIND, Finding

ALL = CheckOptions(targets=frozenset(Target), in_order=True, fields=("cls", "jpg", "json"))


def write(folder, data, name="a.tar"):
    path = Path(folder) / name
    path.write_bytes(data)
    return str(path)


def test_there_are_many_planted_faults():
    assert len(FAULTS) + len(AROUND) >= 90
    assert len({fault.kind for fault in FAULTS.values()} | {kind for _, kind in AROUND.values()}) >= 50


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(tmp_path, name):
    fault = FAULTS[name]
    report = check(write(tmp_path, fault.shard), fault.options)
    serious = {finding.kind for finding in report.findings if finding.severity is not Severity.NOTE}
    found = {finding.kind for finding in report.findings}
    assert fault.kind in found
    assert serious <= {fault.kind} | fault.others
    assert report.ok == (fault.kind not in serious)
    for finding in report.findings:
        if finding.kind is fault.kind:
            assert finding.what
            assert finding.remedy == finding.kind.remedy


@pytest.mark.parametrize("name", AROUND)
def test_a_fault_around_shards_is_found(tmp_path, name):
    make, kind = AROUND[name]
    report = check(make(tmp_path))
    assert kind in {finding.kind for finding in report.findings if finding.severity is not Severity.NOTE}
    assert not report.ok


def test_every_kind_is_planted_or_named_here():
    planted = {fault.kind for fault in FAULTS.values()} | {kind for _, kind in AROUND.values()}
    assert set(Kind) - planted == {Kind.NOT_CHECKED}  # needs a machine without a package; tested below


def test_every_kind_has_a_remedy_and_every_damage_a_kind():
    assert all(kind.remedy for kind in Kind)
    assert {damage.value for damage in DamageKind} < set(Kind)


def test_a_finding_says_where(tmp_path):
    shard = write(tmp_path, good() + sample("x", cls=b"seven") + END)
    (finding,) = check(shard).of(Severity.ERROR)
    assert (finding.kind, finding.shard, finding.key, finding.field) == (Kind.UNDECODABLE, shard, "x", "cls")
    assert finding.offset == len(good())


def test_what_only_others_trip_over_is_a_note_until_they_are_named(tmp_path):
    shard = write(tmp_path, good() + sample("x y") + END)
    assert check(shard).ok
    assert [f.severity for f in check(shard).findings] == [Severity.NOTE] * 3
    assert not check(shard, CheckOptions(targets=frozenset({Target.DALI}))).ok


def test_threads_and_processes_find_the_same(tmp_path):
    shards = [write(tmp_path, fault.shard, f"{row}.tar") for row, fault in enumerate(list(FAULTS.values())[::8])]
    one, two = check(shards, ALL), check(shards, ALL, jobs=2)
    assert one == two
    assert check(shards[:1], ALL, jobs=3) == check(shards[:1], ALL)


def test_a_missing_package_is_a_note(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "cbor2", None)
    shard = write(tmp_path, good() + sample("x", cbor=b"\x01") + sample("y", cbor=b"\x01") + END)
    report = check(shard, CheckOptions(fields=()))
    assert report.ok
    assert [(f.kind, f.field) for f in report.findings] == [(Kind.NOT_CHECKED, "cbor")]


def test_findings_of_one_kind_are_counted_when_they_are_many(tmp_path):
    many = MOST_OF_A_KIND + 50
    shard = write(tmp_path, b"".join(sample(f"{n}", cls=b"?") for n in range(many)) + END)
    report = check(shard)
    assert report.counts[Kind.UNDECODABLE] == many
    assert len(report.findings) == MOST_OF_A_KIND


def test_shards_that_share_many_keys_are_one_finding(tmp_path):
    shards = [write(tmp_path, good() + END, f"{n}.tar") for n in range(3)]
    report = check(shards, CheckOptions(decode=False))
    found = [(f.shard, f.what) for f in report.findings]
    assert found == [(shard, f"this key, and 5 more keys of this shard are in {shards[0]} too") for shard in shards[1:]]
    assert report.counts == {Kind.DUPLICATE_KEY: 12}
    assert check(shards, CheckOptions(decode=False), across=False).ok


def test_standard_input_and_remote_shards_are_checked(tmp_path):
    with wds.TarWriter("memory://check/a.tar") as sink:
        sink.write({"__key__": "a", "txt": "hello"})
    assert check("memory://check/a.tar").ok
    assert check(f"pipe:cat {write(tmp_path, good() + END)}").ok


# --- no false alarm ------------------------------------------------------------------------------------------------

names = st.text(st.characters(codec="utf-8", categories=("L", "N"), exclude_characters="/."), min_size=1, max_size=30)
keys = st.lists(
    st.builds("/".join, st.lists(names, min_size=1, max_size=3)), min_size=1, max_size=12, unique_by=str.casefold
)
values = {
    "txt": st.text(max_size=600).map(str.encode),
    "cls": st.integers(0, 10**6).map(lambda number: b"%d" % number),
    "bin": st.binary(max_size=3000),
    "seg.bin": st.binary(max_size=100),
    "json": st.just(b'{"a": [1, 2]}'),
}
chosen = st.lists(st.sampled_from(sorted(values)), min_size=1, unique=True)


@st.composite
def datasets(draw):
    found = sorted(draw(keys))
    found = [key for key in found if not any(other.startswith(f"{key}/") for other in found)]
    fields = draw(chosen)
    return [(key, {field: draw(values[field]) for field in fields}) for key in found]


def by_our_writer(samples, path, **options):
    with wds.TarWriter(path, encoder=False, **options) as sink:
        for key, fields in samples:
            sink.write({"__key__": key, **fields})


def by_tarfile(samples, path, format):
    with tarfile.open(path, "w", format=format) as archive:
        for key, fields in samples:
            for field, data in fields.items():
                info = tarfile.TarInfo(f"{key}.{field}")
                info.size, info.mtime = len(data), 1700000000.5
                archive.addfile(info, io.BytesIO(data))


FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
# The portability of names is another question: these are for Linux.
LINUX = CheckOptions(targets=frozenset({Target.GNU_TAR}))


def is_good(path, options=LINUX):
    report = check(path, options)
    return [str(finding) for finding in report.findings if finding.severity is not Severity.NOTE]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(samples=datasets(), how=st.sampled_from(["ours", "ours gz", "ours pax", *FORMATS]))
def test_good_shards_raise_no_alarm(tmp_path_factory, samples, how):
    path = str(tmp_path_factory.mktemp("good") / ("a.tar.gz" if how == "ours gz" else "a.tar"))
    if how in FORMATS:
        by_tarfile(samples, path, FORMATS[how])
    else:
        by_our_writer(samples, path, format="pax" if how == "ours pax" else None, index=True)
    assert is_good(path) == []


@pytest.mark.parametrize("format", ["v7", "oldgnu", "gnu", "ustar", "posix"])
@pytest.mark.parametrize("packed", ["", "z", "j", "J"])
def test_shards_of_gnu_tar_raise_no_alarm(tmp_path, format, packed):
    program = {"z": "gzip", "j": "bzip2", "J": "xz"}.get(packed, "tar")
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    folder = tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    for number in range(30):
        for name, data in {"txt": b"hello", "cls": b"%d" % number, "bin": bytes(number * 100)}.items():
            (folder / "deep" / f"{number:05d}.{name}").write_bytes(data)
    path = str(tmp_path / "a.tar")
    subprocess.run(
        ["tar", f"-c{packed}f", path, f"--format={format}", "--sort=name", "-C", str(folder), "."], check=True
    )
    assert is_good(path, replace(LINUX, in_order=True)) == []


def test_a_tar_in_a_tar_is_no_damage(tmp_path):
    inner = good() + END
    shard = write(tmp_path, b"".join(sample(f"{n}", tar=inner, txt=b"a") for n in range(5)) + END)
    assert is_good(shard) == []
    # … nor are its members taken for members of the outer one, when that is cut or damaged.
    cut = write(tmp_path, (sample("0", tar=inner) + sample("1", tar=inner))[:-5000], "cut.tar")
    report = check(cut)
    assert report.samples == 1
    damaged = sample("0", tar=inner) + b"X" + sample("1", tar=inner)[1:] + sample("2", tar=inner) + END
    report = check(write(tmp_path, damaged, "damaged.tar"))
    assert (report.samples, set(report.counts)) == (2, {Kind.BAD_CHECKSUM})


def test_a_finding_without_a_name_names_no_member():
    found = Finding(Kind.NO_SAMPLES, "what", "a.tar", 512, key="", member="", field="")
    assert str(found).endswith("what – a.tar, byte 512")
