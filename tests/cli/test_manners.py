"""How `wds` behaves: errors, exit codes, pipes, interrupts, progress, JSON, speed of starting."""

import importlib
import importlib.metadata
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.tools.datasets import digests, hidden, keys, read, write_numbers
from webdataset.cli._main import VERBS, wds
from webdataset.cli._output import BROKEN_PIPE, INTERRUPTED

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "webdataset"]


def invoke(*arguments, code=0):
    result = CliRunner().invoke(wds, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def start(*arguments, **options):
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_heed_interrupts,
        **options,
    )


def _heed_interrupts():
    """A test run in the background of a shell ignores SIGINT, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


ALL = [f"{n:06d}" for n in range(21)]


# --- help --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_the_shared_options(verb):
    text = invoke(verb, "--help").stdout
    inner = {"index": ("create", "update", "info", "sample")}.get(verb)
    for text in [text] if inner is None else [invoke(verb, word, "--help").stdout for word in inner]:
        for option in ("--json", "--quiet", "--verbose", "--traceback"):
            assert option in text


def test_help_lists_every_verb():
    text = invoke("--help").stdout
    assert all(f"\n  {verb} " in text for verb in VERBS)
    assert invoke("--version").stdout.strip() == importlib.metadata.version("webdataset")


def test_a_wrong_verb_names_the_closest():
    assert "'cat'" in invoke("kat", code=2).output
    assert "--help" in invoke("zzz", code=2).output


# `webdataset.tools` itself loads its modules when they are used.
HEAVY = ("torch", "numpy", "PIL", "tqdm", "webdataset.tools._", "webdataset.pipeline")


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom webdataset.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        f"print([m for m in sys.modules if m.startswith({HEAVY})], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_verbs_do_not_import_torch(shards):
    code = (
        "import sys\nfrom webdataset.cli import main\n"
        f"try: main(['select', '--where', 'cls > 1', '-o', 'o.tar', '{shards[0]}'])\nexcept SystemExit: pass\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_verb_loads_its_own_tool_only(shards):
    code = "import sys; from webdataset.tools import list_samples; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in loaded if name.startswith("webdataset.tools.")}
    assert ours >= {"webdataset.tools._list_samples", "webdataset.tools._read_inputs"}
    assert not ours & {f"webdataset.tools._{verb}" for verb in ("check", "create", "query", "proc", "simulate")}


def test_shell_completion(here):
    environment = {**os.environ, "_WDS_COMPLETE": "bash_complete", "COMP_WORDS": "wds sp", "COMP_CWORD": "1"}
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, check=False)
    assert "split" in done.stdout


# --- results and errors ------------------------------------------------------------------------------------------


def test_json(shards):
    result = json.loads(invoke("cat", *shards, "-o", "out.tar", "--json").stdout)
    assert (result["samples_out"], result["failed"], result["outputs"]) == (21, [], ["out.tar"])


def test_the_report_goes_to_stderr_and_quiet_is_quiet(shards):
    result = invoke("cat", *shards, "-o", "out.tar")
    assert result.stdout == ""
    assert "21 samples" in result.stderr
    assert invoke("cat", *shards, "-o", "out.tar", "--force", "-q").output == ""


def test_json_does_not_mix_with_data_on_stdout(shards, here):
    process = start("cat", *shards, "-o", "-", "--json")
    data, errors = process.communicate(timeout=60)
    (here / "piped.tar").write_bytes(data)
    assert keys("piped.tar") == ALL
    assert json.loads(errors)["samples_out"] == 21


ERRORS = {
    "no such file": (["cat", "nowhere.tar", "-o", "out.tar"], 1, "nowhere.tar"),
    "no output": (["cat", "a.tar"], 2, "--output"),
    "no input": (["cat", "-o", "out.tar"], 2, "INPUT"),
    "expression": (["select", "--where", "key.__class__", "-o", "out.tar", "data/train-0.tar"], 1, "__class__"),
    "size": (["split", "-s", "many", "-o", "out-%d.tar", "data/train-0.tar"], 2, "500MB"),
    "share": (["partition", "-p", "train", "-o", "{part}-%d.tar", "data/train-0.tar"], 1, "train=0.9"),
    "no placeholder for the part": (["partition", "-p", "train=1", "-o", "t-%d.tar", "data/train-0.tar"], 1, "{part}"),
    "parallel stream": (["select", "--where", "1", "-j", "2", "-o", "out.tar", "data/train-0.tar"], 1, "folder/"),
    "unknown engine": (["select", "--where", "1", "--engine", "x", "-o", "out/", "data/train-0.tar"], 2, "dask"),
    "two stdin": (["cat", "-", "-", "-o", "out.tar"], 1, "twice"),
    "scheme": (["cat", "gopher://x/a.tar", "-o", "out.tar"], 1, "gopher"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_one_sentence_with_a_remedy(shards, here, name):
    arguments, code, words = ERRORS[name]
    result = invoke(*arguments, code=code)
    assert words in result.output
    assert "Traceback" not in result.output
    if code == 1:
        assert len(result.stderr.strip().splitlines()) == 1
        assert result.stderr.startswith(f"wds {arguments[0]}: ")
    assert not list(here.glob("out*"))


def test_a_traceback_is_shown_when_asked_for(shards):
    for flag in ("--traceback", "-vv"):
        process = start("cat", "nowhere.tar", "-o", "out.tar", flag)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 1
        assert b"Traceback" in errors


def test_existing_outputs_are_refused(shards):
    invoke("cat", *shards, "-o", "out.tar")
    assert "--force" in invoke("cat", *shards, "-o", "out.tar", code=1).output
    invoke("cat", *shards, "-o", "out.tar", "--force")


# A file that a verb writes beside its shards, and the command.
BESIDE = {
    "out/a.json": ["create", "files", "-o", "out/a-%d.tar"],
    "out/classes.json": ["create", "files", "--format", "imagefolder", "-o", "out/a-%d.tar"],
    "out/d.json": ["cat", "data/train-0.tar", "-o", "out/a.tar", "--description", "out/d.json"],
    "out/e.json": ["split", "-n", "2", "data/train-0.tar", "-o", "out/a-%d.tar", "--description", "out/e.json"],
    "out/f.json": ["rename", "--drop", "cls", "data/train-0.tar", "-o", "out/", "--description", "out/f.json"],
    "out/val.json": ["partition", "-p", "val=1", "data/train-0.tar", "-o", "out/{part}-%d.tar"],
    "out/j.json": ["join", "--with", "data/train-1.tar", "data/train-0.tar", "-o", "out/j.json"],
    "out/g.bin": ["get", "000001", "txt", "data/train-0.tar", "-o", "out/g.bin"],
    "out/h.bin": ["first", "-f", "txt", "data/train-0.tar", "-o", "out/h.bin"],
    "out/q.parquet": ["query", "select key from samples", "data/train-0.tar", "--parquet", "out/q.parquet"],
    "out/c.json": ["convert", "data/train-0.tar", "out/c-%d.tar", "-n", "3", "--description", "out/c.json"],
    "out/k.json": ["index", "create", "data/train-0.tar", "-o", "out/k.json"],
}


@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize("name", BESIDE)
def test_a_file_beside_the_shards_is_not_replaced_either(shards, here, name, dry, monkeypatch):
    monkeypatch.setenv("WDS_TRUSTED_FOLDERS", str(here / "data"))  # a description elsewhere may name its shards
    for folder in ("files/x", "out"):
        (here / folder).mkdir(parents=True)
    (here / "files/x/a.png").write_bytes(b"")
    (here / name).write_text("mine")
    if dry and BESIDE[name][0] in {"get", "first", "query", "index"}:
        pytest.skip("no --dry-run")
    result = invoke(*BESIDE[name], *["--dry-run"] * dry, code=1)
    assert f"exists already – {name}" in result.stderr
    assert digests(here / "out").keys() == {Path(name).name}
    assert (here / name).read_text() == "mine"
    if not dry:
        invoke(*BESIDE[name], "--force")
        assert (here / name).read_bytes() != b"mine"


@pytest.mark.parametrize("verb", ["cat", "split", "select", "sort", "shuffle", "rename", "proc", "create", "mix"])
def test_dry_run_writes_nothing(shards, here, verb):
    options = {"select": ["--where", "1"], "proc": ["-c", "true"]}.get(verb, [])
    before = digests(here)
    result = invoke(verb, *shards, "-o", "out-%d.tar", "--dry-run", *options)
    assert "out-%d.tar" in result.stderr
    assert digests(here) == before


def test_what_fails_is_listed_and_the_exit_code_says_so(shards):
    result = invoke("proc", "-c", "test $(cat sample.txt) != 5", "--failed", "skip", "-o", "out.tar", *shards, code=1)
    assert "failed: 000005" in result.stderr
    assert len(keys("out.tar")) == 20


def test_progress_on_a_terminal(shards):
    """A bar appears where stderr is a terminal, and nothing of it where it is not."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen([*COMMAND, "cat", *shards, "-o", "out.tar"], stderr=terminal)
    os.close(terminal)
    shown = b""
    try:
        while data := os.read(controller, 1000):
            shown += data
    except OSError:  # the other end was closed
        pass
    os.close(controller)
    assert process.wait(timeout=60) == 0
    assert b"samples" in shown
    assert b"\r" in shown


# --- pipes and signals -------------------------------------------------------------------------------------------


def test_the_pipe_of_the_seeds(shards, here):
    command = f"{sys.executable} -m webdataset"
    line = f"{command} cat {' '.join(shards)} -o - | {command} split -n 8 -o 'out-%06d.tar' -"
    subprocess.run(["bash", "-o", "pipefail", "-c", line], check=True, capture_output=True)
    assert [len(read(f"out-{n:06d}.tar")) for n in range(3)] == [8, 8, 5]
    assert read(*[f"out-{n:06d}.tar" for n in range(3)]) == read(*shards)


def test_number_of_shards_from_standard_input(shards):
    process = start("split", "--shards", "4", "-o", "out-%d.tar", "-")
    process.communicate(b"".join(Path(url).read_bytes() for url in shards), timeout=60)
    assert process.returncode == 0
    assert [len(read(f"out-{n}.tar")) for n in range(4)] == [5, 5, 5, 6]


@pytest.mark.parametrize("output", ["/dev/stdout", "/dev/fd/1", "pipe"])
def test_a_pipe_gets_the_archive_and_nothing_is_stored_beside_it(shards, here, output):
    os.mkfifo("pipe")
    reader = None if "/" in output else subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE)
    process = start("cat", "-o", output, *shards)
    data, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    if reader is not None:
        data, _ = reader.communicate(timeout=60)
    Path("got.tar").write_bytes(data)
    assert keys("got.tar") == ALL
    assert not list(here.glob("*.idx"))


def test_a_reader_that_goes_away(shards):
    big = [f"{n}.txt text:{'x' * 2000}" for n in range(2000)]
    process = start("create", "-o", "-", "--format", "recipe", "-")
    process.stdin.write("\n".join(big).encode())
    process.stdin.close()
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(timeout=60) == BROKEN_PIPE
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()


def test_a_truncated_pipe_is_an_error(shards):
    data = Path(shards[0]).read_bytes()
    process = start("split", "-n", "2", "-o", "out-%d.tar", "-")
    _, errors = process.communicate(data[:1500], timeout=60)
    assert process.returncode == 1
    assert b"Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "arguments",
    [
        ["cat", "-", "-o", "out.tar"],
        ["split", "-n", "2", "-o", "out-%d.tar", "-"],
        ["sort", "-o", "out.tar", "--memory", "1", "--tmpdir", "tmp", "-"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_interrupt_leaves_nothing_half_written(shards, here, arguments, number):
    """The verb waits for more input when it is interrupted: it has read some samples and written some."""
    (here / "tmp").mkdir()
    process = start(*arguments)
    process.stdin.write(Path(shards[0]).read_bytes()[:-1024])  # no end of archive: it waits for more
    process.stdin.flush()
    wait_until_reading(process)
    process.send_signal(number)
    process.wait(timeout=60)
    process.stdin.close()
    errors = process.stderr.read()
    process.stderr.close()
    process.stdout.close()
    assert process.returncode == {signal.SIGINT: INTERRUPTED, signal.SIGTERM: 143}[number]
    assert b"Traceback" not in errors
    assert hidden(here) == []
    assert list((here / "tmp").iterdir()) == []
    assert not (here / "out.tar").exists()
    for path in here.glob("out-*.tar"):
        assert len(read(path)) == 2


def wait_until_reading(process):
    """Until the process has taken all of its input, and sleeps in `read`."""
    import fcntl
    import termios

    while process.poll() is None:
        waiting = fcntl.ioctl(process.stdin, termios.FIONREAD, b"\0" * 4)
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        if waiting == b"\0" * 4 and state == "S":
            return
        time.sleep(0.005)


def test_an_interrupt_of_parallel_work_ends_the_workers(shards, here):
    import psutil

    process = start(
        "proc", "-c", "touch ../started; sleep 1000", "--tmpdir", str(here), "-j", "2", "-o", "out/", *shards
    )
    while not (here / "started").exists():
        assert process.poll() is None
        time.sleep(0.005)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    gone, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []
    assert digests(here / "out") == {}
    assert hidden(here / "out") == []
    assert [path.name for path in here.iterdir() if path.name.startswith(".wds.")] == []


# --- counts ------------------------------------------------------------------------------------------------------


def test_one_of_a_thing_is_in_the_singular(here):
    (one,) = write_numbers("one", shards=1, each=1)
    spoken = {
        "cat": invoke("cat", one, "-o", "out.tar").stderr,
        "check": invoke("check", one).stderr,
        "stats": invoke("stats", "--no-histogram", one).stdout,
        "index": invoke("index", "create", "--force", one).stderr,
        "simulate": invoke("simulate", one, "--ranks", "1", "--workers", "1").stdout.partition("\n")[0],
        "partition": invoke("partition", one, "-o", "{part}-%06d.tar", "--part", "all=1").stderr,
        "convert": invoke("convert", one, "out.tfrecord").stderr,
    }
    for verb, text in spoken.items():
        assert re.search(r"\b1 (shard|sample|file)\b", text), (verb, text)
        assert not re.search(r"\b1 \w+s\b(?! of)", text), (verb, text)


def test_a_selection_of_nothing_says_so(shards):
    result = invoke("select", "--where", "clss > 1", "-o", "none.tar", *shards)
    assert "none of 21 samples fits: check the names of fields" in result.stderr


# --- a standard output that takes nothing --------------------------------------------------------------------------

HELP = [[], *([verb] for verb in VERBS), *(["index", word] for word in ("create", "update", "info", "sample"))]
PRINTS = [
    ["--version"], ["ls", "0.tar"], ["ls", "--json", "0.tar"], ["show", "0.tar"], ["show", "--format", "tsv", "0.tar"],
    ["get", "000001", "cls", "0.tar"], ["first", "-q", "-f", "cls", "0.tar"], ["cat", "-o", "-", "0.tar"], ["grep", ".", "0.tar"],
    ["stats", "--json", "0.tar"], ["index", "sample", "1", "0.tar"], ["index", "sample", "-c", "cls", "1", "0.tar"],
    ["query", "SELECT count(*) FROM samples", "0.tar"], ["doctor"], ["simulate", "0.tar"],
]  # fmt: skip


@pytest.fixture
def one_shard(here):
    os.rename(*write_numbers("data", shards=1, each=3), "0.tar")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [*([*verb, "--help"] for verb in HELP), *PRINTS], ids=" ".join)
def test_what_cannot_be_printed_is_one_sentence(arguments, one_shard, capsys):
    with open("/dev/full", "w") as full, redirect_stdout(full), pytest.raises(SystemExit) as ended:
        wds.main(arguments, prog_name="wds")
    # Nothing is left that could fail when the file is closed, or when the interpreter ends.
    assert ended.value.code == 1
    verb = [word for word in arguments[:1] if not word.startswith("-")]
    line = rf"{' '.join(['wds', *verb])}\b.*: the disk is full – standard output – .+\n"
    assert re.fullmatch(line, capsys.readouterr().err)


@pytest.mark.parametrize("arguments", [["--help"], ["ls", "--help"], ["--version"], ["show", "0.tar"]], ids=" ".join)
def test_help_for_a_reader_that_went_away(arguments, one_shard):
    reading, writing = os.pipe()
    os.close(reading)
    found = subprocess.run([*COMMAND, *arguments], stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert (found.returncode, found.stderr) == (BROKEN_PIPE, b"")
