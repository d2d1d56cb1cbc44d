"""Pictures that depend on nothing of the user's matplotlib."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from report_support import run_folder

_PROGRAM = """
import sys
from pathlib import Path
from nitro_learner.run.views.plot import draw
draw([Path("run")], Path("picture.png"))
import matplotlib, os
print(matplotlib.rcParams["text.usetex"], os.environ.get("MPLBACKEND"), matplotlib.get_backend())
"""


@pytest.mark.parametrize(
    ("backend", "after"),
    [
        ("headless", "True headless agg\n"),
        ("svg", "True svg svg\n"),
        ("", "True  agg\n"),
    ],
)
def test_a_picture_needs_neither_a_backend_nor_the_users_settings(
    tmp_path: Path, backend: str, after: str
) -> None:
    """The settings are the user's own again afterwards."""
    run_folder(tmp_path / "run", 3)
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\n")
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": backend},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout == after, result.stderr
    assert (tmp_path / "picture.png").stat().st_size > 0
