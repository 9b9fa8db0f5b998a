"""Killed with SIGKILL, resumed on another number of ranks: every sample once."""

import re

import pytest

from .data import N, write_shards
from .torchrun import EXAMPLES, alone, launch

HERE = EXAMPLES / "elastic"
pytestmark = [pytest.mark.timeout(900), pytest.mark.long]


@pytest.fixture
def options(tmp_path):
    write_shards(tmp_path)
    return ["--shards", str(tmp_path / "train-{000..004}.tar"), "--out", tmp_path / "out"]


def account(folder):
    outcome = alone(HERE / "account.py", folder / "out", folder=folder)
    assert outcome.code == 0, outcome.printed
    return outcome.printed


def test_four_ranks_are_killed_and_three_go_on(tmp_path, options):
    """103 samples in steps of 4 x 2: killed after 8 steps, the last checkpoint is that of step 6."""
    killed = launch(HERE / "train.py", *options, "--kill-at", 8, folder=tmp_path, nproc=4)
    assert killed.code != 0 and "SIGKILL" in killed.printed
    launch(HERE / "train.py", *options, folder=tmp_path, nproc=3).check()
    printed = account(tmp_path)
    # 103 - 6 x 8 = 55 samples are left: ten steps of 3 x 2.
    assert "run 0: 4 ranks, steps 0 to 5\nrun 1: 3 ranks, steps 6 to 15\n" in printed
    assert f"epoch 0: {N} samples, 0 repeated, numbers 0 to {N - 1}" in printed
    assert len(re.findall("loss", printed)) == 16
    page = (EXAMPLES.parent / "docs" / "multinode.md").read_text()
    for line in printed.splitlines():
        assert "loss" in line or line in page, f"the page does not show {line!r}"
    print(printed)


def test_torchrun_restarts_by_itself(tmp_path, options):
    """One of two ranks dies once; torchrun starts both again, and they go on from the checkpoint; two epochs."""
    arguments = [*options, "--epochs", 2, "--kill-at", 8, "--kill-ranks", 1]
    # Otherwise torch 2.13 keeps the addresses of the ranks that died, and gloo cannot connect.
    variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    launch(HERE / "train.py", *arguments, folder=tmp_path, options=["--max-restarts=2"], **variables).check()
    printed = account(tmp_path)
    assert "run 0: 2 ranks, steps 0 to 5\nrun 1: 2 ranks, steps 6 to 51\n" in printed
    for epoch in range(2):
        assert f"epoch {epoch}: {N} samples, 0 repeated, numbers 0 to {N - 1}" in printed


@pytest.mark.parametrize(("before", "after"), [(3, 4), (2, 1), (1, 2)])
def test_other_numbers_of_ranks(tmp_path, options, before, after):
    options += ["--workers", 1]
    launch(HERE / "train.py", *options, "--kill-at", 5, folder=tmp_path, nproc=before)
    launch(HERE / "train.py", *options, folder=tmp_path, nproc=after).check()
    assert f"epoch 0: {N} samples, 0 repeated, numbers 0 to {N - 1}" in account(tmp_path)
