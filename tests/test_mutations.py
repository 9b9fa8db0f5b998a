"""Each guarantee of index and order is broken on purpose, and the test that stands for it has to fail.

A guarantee, the line that keeps it, the line that breaks it, and the test. The tests run on a copy of the package.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

MUTATIONS = {
    "a view never shows other bytes": (
        "tar/_window_memory.py", "weakref.finalize(shown, self._spare.append, window).atexit = False", "self._spare.append(window)",
        "tar/test_views.py", "let_go_of",
    ),
    "an epoch has an order of its own": (
        "plan/_read_planned.py", "during.epoch, window", "0, window", "pipeline/test_planned.py", "golden_order",
    ),
    "a seed has an order of its own": (
        "plan/_read_planned.py", "during.seed, during.epoch", "0, during.epoch", "pipeline/test_planned.py", "golden_order",
    ),
    "padding has weight 0": (
        "plan/_read_planned.py", "at.numbers(first, stop) >= len(at.remaining)", "at.numbers(first, stop) < 0",
        "pipeline/test_planned.py", "samples_are_marked or full_batches",
    ),
    "all ranks have as many steps": (
        "order/_steps.py", "else -(-self.samples // per_step)", "else self.samples // per_step", "pipeline/test_planned.py", "weights_sum",
    ),
    "a resume begins after what was done": (
        "plan/_plan_progress.py", "self.remaining, self.taken = state.for_reader(self._identity)", "pass",
        "pipeline/test_planned_resuming.py", "resuming_twice",
    ),
    "a failed sample is tried again": (
        "pipeline/_fused.py", "at.origins.appendleft(at.origin)", "pass", "pipeline/test_after_failure.py", "nothing_is_lost",
    ),
    "a batch that was begun is read again": (
        "pipeline/_running_pass.py", 'hasattr(at, "origins")', "False", "pipeline/test_after_failure.py", "nothing_is_lost",
    ),
    "a checkpoint of another pipeline is refused": (
        "pipeline/_checkpoint.py", "if there != here:", "if False:", "pipeline/test_planned_refusals.py", "refused_with_what_differs",
    ),
    "a checkpoint of another rank is refused": (
        "pipeline/_run.py", "cursor.check_world(world.current())", "pass", "state/test_ranks.py", "another_rank",
    ),
    "a dataset inside another is told its epoch": (
        "pipeline/_nested.py", "StateError = Cursor(during.epoch)", "StateError = Cursor(0)",
        "state/test_every_stop_point.py", "stream_shuffled+in_stages",
    ),
    "a state between two passes knows where parts go on": (
        "pipeline/_nested.py", "return _start([part.save_next() for part in self.parts])", "return None",
        "pipeline/test_mix.py", "between_epochs",
    ),
    "an epoch that has ended is not continued": (
        "pipeline/_pipeline.py", "if not run.ended or world", "if True or world", "state/test_every_stop_point.py", "with_epoch_restart",
    ),
    "stages after a loader are part of its state": (
        "pipeline/_running_pass.py", "return where, self.yielded - yielded", "return where, 0",
        "state/test_every_stop_point.py", "generator or rebatched or in_stages",
    ),
    "a saved state does not change later": (
        "pipeline/_source_choice.py", '"weights": list(self.weights)', '"weights": self.weights',
        "state/test_every_stop_point.py", "at_random+threads-2",
    ),
    "threads do not read ahead where it would show": (
        "loader/_threads.py", "if must_not_read_ahead(self.dataset):", "if False:", "state/test_early_end.py", "what_follows",
    ),
    "a handler is asked in the order of the items": (
        "flow.py", "turn.get()()", "pass", "state/test_early_end.py", "in_the_order_of_the_items",
    ),
    "Ctrl-C while a loader is waited for reads nothing again": (
        "pipeline/_running_pass.py", "or self._progress[0].interrupted", "or False",
        "pipeline/test_interrupted_anywhere.py", "while_a_loader_is_waited_for",
    ),
    "Ctrl-C in a stage makes its state uncertain": (
        "pipeline/_running_pass.py", "(not self.interrupted or", "(True or",
        "pipeline/test_interrupted_anywhere.py", "ctrl_c_is_exact and rebatched and threads",
    ),
    "shares are kept": (
        "pipeline/_source_choice.py", "return self._schedule.draw()", "return self._step % 2",
        "pipeline/test_mix.py", "within_one_item",
    ),
    "an index that ends early is noticed": (
        "index/_check_index.py", "if (rest > _LONGEST_END", "if False and (rest > _LONGEST_END",
        "index/test_lookup.py", "stale or put_together",
    ),
    "a member is compared with the index": (
        "index/_shard_reader.py", "            return False\n    return True", "            return True\n    return True",
        "index/test_lookup.py", "stale or foreign",
    ),
    "only the wanted fields are read": (
        "index/_shard_reader.py", "    if fields is None:\n        return extents", "    if True:\n        return extents",
        "index/test_lookup.py", "only_the_fields",
    ),
    "a damaged header is noticed": (
        "tar/_header_columns.py", "(stored == sums - digit_sums - _FIELD_EXCESS)", "(stored == stored)",
        "index/test_walk.py", "damaged",
    ),
    "a tar in a tar is not indexed": (
        "index/_walk_headers.py", "if not is_file and (header.kind != _DIRECTORY or header.size):", "if False:",
        "index/test_walk.py", "gives_up",
    ),
    "indexes in memory are bounded": (
        "index/_recent_indexes.py", "while self._bytes > limit", "while False", "index/test_recent.py", "bounded",
    ),
}  # fmt: skip


@pytest.mark.parametrize("guarantee", MUTATIONS)
def test_a_line_that_is_broken_on_purpose_exists(guarantee):
    file, kept, *_ = MUTATIONS[guarantee]
    assert (ROOT / "src" / "webdataset" / file).read_text().count(kept) == 1


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("guarantee", MUTATIONS)
def test_a_broken_guarantee_is_noticed(tmp_path, guarantee):
    file, kept, broken, tests, which = MUTATIONS[guarantee]
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    path = source / "webdataset" / file
    path.write_text(path.read_text().replace(kept, broken))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            f"tests/{tests}",
            "-k",
            which,
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-n",
            "0",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout[-2000:]
    assert " failed" in done.stdout.splitlines()[-1] or " error" in done.stdout.splitlines()[-1]
