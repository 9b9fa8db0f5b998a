"""Real `torchrun` processes on this machine, with gloo, bounded in time."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
# What a launcher around the tests may have set.
LAUNCHERS = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_",
    "PMI_",
    "SLURM_",
    "TORCHELASTIC_",
)


@dataclass
class Outcome:
    """What a launch left: its exit code, what it printed, and what each rank wrote."""

    code: int
    printed: str
    ranks: list

    def check(self):
        assert self.code == 0, self.printed[-6000:]
        return self.ranks


def environment(**more):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    paths = [str(ROOT / "src"), str(EXAMPLES), str(ROOT), *(os.path.abspath(path) for path in sys.path if path)]
    clean |= {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return clean | {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"} | more


def launch(program, *arguments, folder, nproc=2, timeout=280, options=(), **more):
    """Run one of PROGRAMS, or a path of an example, on `nproc` ranks; its ranks may write `rank-R.json` into the folder."""
    if Path(program).is_absolute():
        program, arguments = "run_example.py", (program, *arguments)
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={nproc}"]
    command += ["--rdzv-backend=c10d", *meeting(folder), "--local-addr=127.0.0.1", *options]
    return run([*command, str(PROGRAMS / program), *map(str, arguments)], folder, timeout, nproc, **more)


def meeting(folder):
    """Where the ranks meet: by TCP, or where torch was built without libuv (as Debian's is) in a file."""
    if os.environ.get("USE_LIBUV") != "0":
        return ["--rdzv-endpoint=127.0.0.1:0"]
    return ["--rdzv-conf=store_type=file", f"--rdzv-endpoint={tempfile.mktemp(dir=folder, prefix='meeting-')}"]


def alone(program, *arguments, folder, timeout=280, nproc=1, **more):
    """Run a program as one process, without a launcher."""
    path = PROGRAMS / program  # an absolute path stays as it is
    return run([sys.executable, str(path), *map(str, arguments)], folder, timeout, nproc, **more)


def run(command, folder, timeout, nproc, **more):
    for old in Path(folder).glob("rank-*.json"):
        old.unlink()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        printed, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        parent = psutil.Process(process.pid)
        for each in (*parent.children(recursive=True), parent):  # ranks are sessions of their own
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        printed, _ = process.communicate()
        raise AssertionError(f"no end after {timeout} s:\n{printed[-6000:]}") from None
    written = [Path(folder) / f"rank-{rank}.json" for rank in range(nproc)]
    ranks = [json.loads(path.read_text()) if path.exists() else None for path in written]
    return Outcome(process.returncode, printed, ranks)
