"""The notebook runs from its first cell to its last, without an error, and shows pictures.

python tests/test_notebook.py        runs it and stores the outputs
"""

import os
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "readme.ipynb"


def executed():
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(NOTEBOOK.parent)}}).execute()
    return notebook


def pictures(notebook):
    kinds = [kind for cell in notebook.cells for output in cell.get("outputs", []) for kind in output.get("data", {})]
    return sum(kind in {"image/png", "image/svg+xml"} for kind in kinds)


@pytest.mark.timeout(400)
@pytest.mark.filterwarnings("ignore")  # of the notebook's own packages
def test_the_notebook_runs(monkeypatch):
    pytest.importorskip("nbclient", reason="nbclient runs the notebook: requirements/test.txt")
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    assert pictures(executed()) >= 5


def test_the_stored_notebook_has_its_outputs():
    import nbformat

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert pictures(notebook) >= 5
    assert not [cell for cell in notebook.cells if cell.cell_type == "code" and cell.execution_count is None]


if __name__ == "__main__":
    import nbformat

    result = executed()
    for cell in result.cells:
        cell.metadata.pop("execution", None)  # times differ from run to run
    nbformat.write(result, NOTEBOOK)
