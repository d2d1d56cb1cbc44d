"""Notebooks as pages: text, code, and what the code printed and drew when the notebook was last run."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nitro_website.repository import DOCS


def as_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its pictures by their names on the site."""
    return of_cells(json.loads(path.read_text(encoding="utf-8"))["cells"], path)


def of_cells(cells: Iterable[Mapping[str, Any]], path: Path) -> tuple[str, dict[str, bytes]]:
    """The cells of the notebook at `path`, as `as_page` returns them."""
    pictures: dict[str, bytes] = {}
    name = path.relative_to(DOCS).with_suffix("").as_posix()
    parts: list[str] = []
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                picture = f"{name}-{len(pictures) + 1}.png"
                pictures[picture] = base64.b64decode(data["image/png"])
                parts.append(f"![What the code above draws]({Path(picture).name})")
            elif text := "".join(output.get("text") or data.get("text/plain", "")):
                # What a cell prints comes in pieces.
                before = parts.pop().removesuffix("```") if parts[-1].startswith("```text") else "```text\n"
                parts.append(f"{before}{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n", pictures
