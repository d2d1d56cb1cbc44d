"""`nitro init` writes the parts that docs/own-parts.md prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs_blocks import blocks
from docs_support import ROOT
from nitro_learner import cli

STARTS = ROOT / "learner-image" / "nitro_learner" / "cli" / "starts"


@pytest.mark.parametrize("kind", sorted(path.name for path in STARTS.iterdir()))
def test_a_folder_to_start_from_is_what_the_page_prints(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    assert cli.main(["init", kind, str(folder)]) == 0
    printed = [block.text for block in blocks(ROOT / "docs" / "own-parts.md")]
    files = sorted(folder.iterdir())
    said = capsys.readouterr().out
    assert said.splitlines()[: len(files)] == list(map(str, files))
    assert ".yaml --code . --follow" in said
    for file in files:
        head = f"# {file.name}\n" if file.suffix == ".py" else ""
        assert head + file.read_text() in printed
    assert cli.main(["init", kind, str(folder)]) == 2
    assert "exists already and is not replaced; name a new folder" in capsys.readouterr().err
