"""The notebook runs from its first cell to its last, without an error, and shows pictures.

`python tests/test_notebook.py` runs it and stores the outputs.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "readme.ipynb"


def execute(target):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(NOTEBOOK.parent)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times differ from run to run
    nbformat.write(notebook, target)


def pictures(path):
    import nbformat

    cells = nbformat.read(path, as_version=4).cells
    kinds = [kind for cell in cells for output in cell.get("outputs", []) for kind in output.get("data", {})]
    return sum(kind in {"image/png", "image/svg+xml"} for kind in kinds)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_notebook_runs(tmp_path):
    """In a process of its own: nbclient keeps an event loop."""
    pytest.importorskip("nbclient", reason="nbclient runs the notebook: requirements/test.txt")
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    command = [sys.executable, __file__, str(tmp_path / "ran.ipynb")]
    result = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert pictures(tmp_path / "ran.ipynb") >= 5


def test_the_stored_notebook_has_its_outputs():
    nbformat = pytest.importorskip("nbformat", reason="nbformat reads the notebook: requirements/test.txt")
    assert pictures(NOTEBOOK) >= 5
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert not [cell for cell in cells if cell.cell_type == "code" and cell.execution_count is None]
    assert not [output for cell in cells for output in cell.get("outputs", []) if output.output_type == "error"]


if __name__ == "__main__":
    execute(sys.argv[1] if len(sys.argv) > 1 else NOTEBOOK)
