"""Shards in parallel: the same bytes for any number of workers and any engine, resumed after anything."""

import concurrent.futures as cf
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import webdataset as wds
from tests.tools.datasets import digests, hidden, keys, read, write_inputs, write_shard
from webdataset.errors import FormatError, SpecError, StoreError
from webdataset.index import load_index, read_description
from webdataset.tools import map_shards


def upper(samples):
    for sample in samples:
        yield {**sample, "txt": sample["txt"].upper()}


def refuse_two(samples):
    for sample in samples:
        if sample["__key__"].startswith("2"):
            raise ValueError("cannot do shard 2")
        yield sample


def die_on_two(samples):
    for sample in samples:
        if sample["__key__"].startswith("2"):
            os.kill(os.getpid(), signal.SIGKILL)
        yield sample


@pytest.fixture
def inputs(tmp_path):
    return write_inputs(tmp_path)


@pytest.fixture
def out(tmp_path):
    return f"{tmp_path}/out/"


def test_the_public_name():
    assert wds.map_shards is map_shards


def test_every_shard_once(inputs, out):
    seen = []
    report = map_shards(upper, inputs, out, advance=seen.append, description=f"{out}all.json")
    assert (report.done, report.skipped, report.failed) == (5, 0, ())
    assert (report.samples_in, report.samples_out, sum(seen)) == (20, 20, 5)
    assert [Path(url).name for url in report.outputs] == [f"{n}.tar" for n in range(5)]
    assert read(*report.outputs) == {k: {"txt": v["txt"].upper()} for k, v in read(*inputs).items()}
    assert [len(load_index(url)) for url in report.outputs] == [4] * 5
    described = read_description(f"{out}all.json")
    assert described.counts == [4] * 5
    assert all(entry.filesize == Path(entry.url).stat().st_size for entry in described.shards)


def test_stages_and_values_are_encoded(inputs, out):
    stages = [
        wds.map(lambda sample: {**sample, "json": {"n": len(sample["txt"])}}),
        wds.select(lambda s: s["__key__"][-1] == "1"),
    ]
    report = map_shards(stages, inputs[:1], out)
    assert (report.samples_in, report.samples_out) == (4, 1)
    assert read(report.outputs[0])["0-1"]["json"] == b'{"n": 8}'


class Later:
    """An executor whose futures are not those of `concurrent.futures`, like those of submitit: they have `result`."""

    def submit(self, fn, *args):
        class Job:
            def result(self):
                return fn(*args)

        return Job()


@pytest.mark.parametrize("engine", ["1", "2", "threads", "pool", "later"])
def test_any_executor_gives_the_same_bytes(inputs, tmp_path, engine):
    plain, other = f"{tmp_path}/plain/", f"{tmp_path}/other/"
    map_shards(upper, inputs, plain, description=f"{plain}all.json")
    if engine in "12":
        map_shards(upper, inputs, other, workers=int(engine), description=f"{other}all.json")
    elif engine == "later":
        map_shards(upper, inputs, other, executor=Later(), description=f"{other}all.json")
    else:
        pools = {"threads": cf.ThreadPoolExecutor, "pool": cf.ProcessPoolExecutor}
        with pools[engine](2) as executor:
            map_shards(upper, inputs, other, executor=executor, description=f"{other}all.json")
    assert digests(plain) == digests(other)
    assert len(digests(plain)) == 11


def test_a_second_run_skips_and_a_lost_or_changed_file_is_made_again(inputs, out):
    map_shards(upper, inputs, out)
    before = digests(out)
    times = {path: path.stat().st_mtime_ns for path in Path(out).glob("*.tar")}
    report = map_shards(upper, inputs, out)
    assert (report.done, report.skipped, len(report.outputs)) == (0, 5, 5)
    assert times == {path: path.stat().st_mtime_ns for path in Path(out).glob("*.tar")}
    Path(f"{out}1.tar").unlink()
    Path(f"{out}3.tar").write_bytes(b"short")
    report = map_shards(upper, inputs, out)
    assert (report.done, report.skipped) == (2, 3)
    assert digests(out) == before
    write_shard(inputs[4], [{"__key__": "4-0", "txt": "another, and longer than before"} for _ in range(1)])
    assert map_shards(upper, inputs, out).done == 1
    assert keys(f"{out}4.tar") == ["4-0"]


def test_more_inputs_later(inputs, out):
    map_shards(upper, inputs[:2], out)
    report = map_shards(upper, inputs, out)
    assert (report.done, report.skipped) == (3, 2)


def test_stop(inputs, out):
    with pytest.raises(ValueError, match="cannot do shard 2"):
        map_shards(refuse_two, inputs, out)
    assert sorted(path.name for path in Path(out).glob("*.tar")) == ["0.tar", "1.tar"]
    assert map_shards(upper, inputs, out, job="refuse_two").done == 3


@pytest.mark.parametrize("workers", [1, 2])
def test_skip_is_tried_again(inputs, out, workers):
    for _ in range(2):
        report = map_shards(refuse_two, inputs, out, errors="skip", workers=workers)
        assert [(failure.item, failure.error) for failure in report.failed] == [(inputs[2], "cannot do shard 2")]
        assert len(report.outputs) == 4
    report = map_shards(upper, inputs, out, job="refuse_two")
    assert (report.done, report.skipped) == (1, 4)


def test_quarantine_is_not_tried_again_unless_asked(inputs, out):
    for done in (4, 0):
        report = map_shards(refuse_two, inputs, out, errors="quarantine")
        assert report.done == done
        assert [failure.item for failure in report.failed] == [inputs[2]]
    assert map_shards(upper, inputs, out, job="refuse_two", retry=True).done == 1
    assert map_shards(upper, inputs, out, job="refuse_two").complete


def test_a_damaged_input_is_quarantined(inputs, out):
    data = Path(inputs[1]).read_bytes()
    Path(inputs[1]).write_bytes(data[:700])
    report = map_shards(upper, inputs, out, errors="quarantine")
    assert [failure.item for failure in report.failed] == [inputs[1]]
    assert inputs[1] in report.failed[0].error
    assert report.done == 4
    assert hidden(out) == []


def test_a_lost_worker_costs_only_its_shard(inputs, out):
    """The worker kills itself on shard 2, always: the others are done, and the culprit is named."""
    report = map_shards(die_on_two, inputs, out, workers=2, errors="skip")
    assert [failure.item for failure in report.failed] == [inputs[2]]
    assert "died" in report.failed[0].error
    assert report.done == 4
    with pytest.raises(StoreError, match="worker process died.*2.tar"):
        map_shards(die_on_two, inputs, out, workers=2)


def test_a_program_that_starts_itself_again_in_its_workers_is_told_so(tmp_path):
    for name in "ab":
        write_shard(tmp_path / f"{name}.tar", [{"__key__": name, "txt": name}])
    program = tmp_path / "program.py"
    program.write_text("import webdataset as wds\nwds.map_shards(list, '{a,b}.tar', 'out/', workers=2)\n")
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]


def test_an_executor_that_lost_a_worker_is_an_error(inputs, out):
    with cf.ProcessPoolExecutor(2) as pool, pytest.raises(StoreError, match="run again"):
        map_shards(die_on_two, inputs, out, executor=pool)
    assert map_shards(upper, inputs, out, job="die_on_two").complete


class BreaksAtTheThird(cf.ThreadPoolExecutor):
    """A pool notices a lost worker when a task ends, or when the next one is submitted."""

    submitted = 0

    def submit(self, fn, /, *args, **kw):
        self.submitted += 1
        if self.submitted == 3:
            raise cf.BrokenExecutor
        return super().submit(fn, *args, **kw)


def test_a_worker_that_is_missed_at_the_next_submission(inputs, out):
    with BreaksAtTheThird(2) as pool, pytest.raises(StoreError, match="run again"):
        map_shards(upper, inputs, out, executor=pool)
    report = map_shards(upper, inputs, out)
    assert report.complete and report.done == 1  # the others were finished before the job stopped


def test_names(inputs, out, tmp_path):
    map_shards(upper, inputs, f"{tmp_path}/a/{{stem}}-small.tar")
    assert Path(f"{tmp_path}/a/0-small.tar").exists()
    map_shards(upper, inputs[:2], [f"{tmp_path}/b/x.tar", f"{tmp_path}/b/y.tar"])
    map_shards(upper, inputs[:1], lambda url: url.replace("/in/", "/c/"))
    assert Path(f"{tmp_path}/b/y.tar").exists()
    assert Path(f"{tmp_path}/c/0.tar").exists()
    for bad in ("one.tar", "many-%d.tar", ["only one"], ["same"] * 5):
        with pytest.raises(SpecError):
            map_shards(upper, inputs, bad)
    other = write_shard(f"{tmp_path}/elsewhere/0.tar", [{"__key__": "x", "txt": "x"}])
    with pytest.raises(SpecError, match="both"):
        map_shards(upper, [*inputs, other], out)
    with pytest.raises(SpecError, match="twice"):
        map_shards(upper, [inputs[0], inputs[0]], out)


def test_arguments(inputs, out):
    with pytest.raises(SpecError, match="errors"):
        map_shards(upper, inputs, out, errors="ignore")
    with pytest.raises(SpecError, match="engine"):
        map_shards(upper, inputs, out, executor="slurm")
    with pytest.raises(SpecError, match="worker"):
        map_shards(upper, inputs, out, workers=0)
    with pytest.raises(SpecError, match="ledger"):
        map_shards(upper, inputs, "memory://map/out/")


def test_remote_outputs_need_a_ledger(inputs, tmp_path):
    for done in (5, 0):
        report = map_shards(upper, inputs, "memory://map-shards/out/", ledger=tmp_path / "job.jsonl")
        assert report.done == done
    assert len(keys(*report.outputs)) == 20


def test_what_exists_is_refused_and_another_job_too(inputs, out):
    write_shard(f"{out}3.tar", [{"__key__": "precious", "txt": "x"}])
    with pytest.raises(SpecError, match="exists"):
        map_shards(upper, inputs, out)
    assert keys(f"{out}3.tar") == ["precious"]
    with pytest.raises(SpecError, match="exists"):
        map_shards(upper, inputs, out)
    assert map_shards(upper, inputs, out, force=True).done == 5
    with pytest.raises(SpecError, match="another job"):
        map_shards(refuse_two, inputs, out)


# --- the ledger --------------------------------------------------------------------------------------------------


def test_a_torn_line_is_cut_off_wherever_it_was_torn(inputs, out):
    map_shards(upper, inputs, out, description=f"{out}all.json")
    expected = digests(out)
    (ledger,) = Path(out).glob(".wds-*")
    whole = ledger.read_bytes()
    for end in range(len(whole), len(whole) - 400, -7):
        ledger.write_bytes(whole[:end])
        report = map_shards(upper, inputs, out, description=f"{out}all.json")
        assert report.done + report.skipped == 5
        assert digests(out) == expected


@pytest.mark.parametrize("line", ["{", "3", "[]", "[1, 2]", '{"input": 3}', '{"x": 1}', "1], [2"])
def test_a_damaged_ledger_is_an_error(inputs, out, line):
    map_shards(upper, inputs, out)
    (ledger,) = Path(out).glob(".wds-*")
    lines = ledger.read_text().splitlines()
    ledger.write_text("\n".join([lines[0], line, *lines[1:]]) + "\n")
    with pytest.raises(FormatError, match="line 2"):
        map_shards(upper, inputs, out)


def test_a_file_that_is_no_ledger_is_kept(inputs, out, tmp_path):
    (tmp_path / "precious").write_text('{"a": 1}\n')
    with pytest.raises(SpecError, match="not a ledger"):
        map_shards(upper, inputs, out, ledger=tmp_path / "precious")
    assert (tmp_path / "precious").read_text() == '{"a": 1}\n'
