"""The notebook of the documentation runs, and what it keeps is of a run of its own cells."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from docs_support import ROOT

NOTEBOOK = ROOT / "docs" / "tutorials" / "cartpole.ipynb"
LONG, SHORT = "rounds = 25\n", "rounds = 2\n"


def kinds(notebook: nbformat.NotebookNode) -> list[set[str]]:
    """What each cell of code puts out, as MIME types."""
    return [
        {kind for output in cell.outputs for kind in output.get("data", {"text/plain": ""})}
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def printed(notebook: nbformat.NotebookNode) -> str:
    return "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()))


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    kept = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(kept)
    again = nbformat.read(NOTEBOOK, as_version=4)
    (training,) = [cell for cell in again.cells if LONG in cell.source]
    training.source = training.source.replace(LONG, SHORT).replace("% 5 == 0", "% 1 == 0")
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(again, timeout=600, kernel_name="python3", resources=place).execute()
    assert kinds(again) == kinds(kept)
    for notebook in (again, kept):
        assert "the same actions: True" in printed(notebook)
    assert re.findall(r"^round +(\d+): return", printed(again), re.MULTILINE) == ["1", "2"]
    assert "TargetReached" in printed(kept)
