"""Which rank this process is: what launchers set, and what is refused."""

import copy
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from webdataset import world
from webdataset.errors import SpecError
from webdataset.pipeline import DataPipeline

LAUNCHERS = ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_", "PMI_", "SLURM_")


@pytest.fixture
def variables(monkeypatch):
    import os

    for name in list(os.environ):
        if name.startswith(LAUNCHERS):
            monkeypatch.delenv(name)

    def put(**values):
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))

    return put


IN_STEP = {"SLURM_JOB_ID": 77, "SLURM_STEP_ID": 0}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, (0, 1)),
        ({"RANK": 1, "WORLD_SIZE": 4}, (1, 4)),
        ({"OMPI_COMM_WORLD_RANK": 2, "OMPI_COMM_WORLD_SIZE": 3}, (2, 3)),
        ({"PMI_RANK": 0, "PMI_SIZE": 3}, (0, 3)),
        ({"SLURM_PROCID": 5, "SLURM_NTASKS": 8}, (5, 8)),
        ({"SLURM_PROCID": 5, "SLURM_NTASKS": 8, **IN_STEP}, (5, 8)),
        # A step with fewer tasks than the job asked for.
        ({"SLURM_PROCID": 1, "SLURM_NTASKS": 8, "SLURM_STEP_NUM_TASKS": 2, **IN_STEP}, (1, 2)),
        # A batch script, and a shell of salloc: one process, whatever number of tasks was asked for.
        ({"SLURM_PROCID": 0, "SLURM_NTASKS": 8, "SLURM_JOB_ID": 77}, (0, 1)),
        ({"SLURM_NTASKS": 8, "SLURM_JOB_ID": 77}, (0, 1)),
        # torchrun inside srun, mpirun inside SLURM: the inner launcher is right.
        ({"RANK": 3, "WORLD_SIZE": 4, "SLURM_PROCID": 1, "SLURM_NTASKS": 2, **IN_STEP}, (3, 4)),
        (
            {"OMPI_COMM_WORLD_RANK": 3, "OMPI_COMM_WORLD_SIZE": 4, "SLURM_PROCID": 1, "SLURM_NTASKS": 2, **IN_STEP},
            (3, 4),
        ),
        # One process of a job that reads everything.
        ({"RANK": 0, "WORLD_SIZE": 1, "SLURM_PROCID": 1, "SLURM_NTASKS": 2, **IN_STEP}, (0, 1)),
        # Programs have a NUM_WORKERS of their own.
        ({"NUM_WORKERS": 8}, (0, 1)),
    ],
    ids=str,
)
def test_a_launcher_tells_the_rank(variables, values, expected):
    variables(**values)
    here = world.current()
    assert (here.rank, here.ranks) == expected and (here.worker, here.workers) == (0, 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"RANK": 1}, "has RANK=1, but not WORLD_SIZE"),
        ({"WORLD_SIZE": 2}, "has WORLD_SIZE=2, but not RANK"),
        ({"OMPI_COMM_WORLD_SIZE": 2}, "but not OMPI_COMM_WORLD_RANK"),
        ({"PMI_RANK": 0}, "but not PMI_SIZE"),
        ({"SLURM_PROCID": 1, **IN_STEP}, "but not SLURM_NTASKS"),
        ({"RANK": 2, "WORLD_SIZE": 2}, "RANK=2 and WORLD_SIZE=2 – expected 0 <= RANK < WORLD_SIZE"),
        ({"RANK": -1, "WORLD_SIZE": 2}, "RANK=-1"),
        ({"RANK": 0, "WORLD_SIZE": 0}, "WORLD_SIZE=0"),
        ({"SLURM_PROCID": 9, "SLURM_NTASKS": 8}, "SLURM_PROCID=9 and SLURM_NTASKS=8"),
        ({"RANK": "one", "WORLD_SIZE": 2}, "RANK has an invalid value: 'one'"),
        ({"RANK": "", "WORLD_SIZE": ""}, "RANK has an invalid value: ''"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(variables, values, message):
    variables(**values)
    with pytest.raises(SpecError) as caught:
        list(DataPipeline(range(3)))
    assert message in str(caught.value)


def test_mpirun_tells_the_rank(variables):
    """A real launcher, not only the variables that it is known to set."""
    import os

    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    variables(OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
    program = "from webdataset import world; here = world.current(); print(f'rank {here.rank} of {here.ranks}')"
    command = ["mpirun", "-np", "2", "--oversubscribe", sys.executable, "-c", program]
    paths = os.pathsep.join([str(Path(world.__file__).parents[1]), *(path for path in sys.path if path)])
    result = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=60
    )
    assert sorted(result.stdout.splitlines()) == ["rank 0 of 2", "rank 1 of 2"], result.stderr


def test_a_pickled_dataset_says_nothing_to_processes_that_are_no_workers(variables):
    """A dataset that rank 1 has saved in a file is read whole elsewhere."""
    variables(RANK=1, WORLD_SIZE=2)
    data = pickle.dumps(DataPipeline(range(3)))
    assert world.sender()[1:] == (1, 2)
    variables(RANK=0, WORLD_SIZE=1)
    pickle.loads(data)
    assert world.current() == world.World()
    assert not world.in_worker()


def test_a_copy_in_the_same_process_sends_nothing(variables):
    """`accelerate` copies the dataset before its worker processes are forked; they must ask for themselves."""
    variables(RANK=1, WORLD_SIZE=2)
    copy.deepcopy(DataPipeline(range(3)))
    assert world._sender is None
