"""Writes the generated files below the repository's root: `python -m nitro_monitoring [ROOT]`."""

from __future__ import annotations

import sys
from pathlib import Path

from nitro_monitoring.files import generated


def main(root: Path) -> None:
    for name, text in generated().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".new")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.rename(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
