"""Files of the repository that have a page on the site, and where that page is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RESULTS = ROOT / "experiments" / "results"
"""The pages of finished experiments, with their pictures: the site has them in results/."""
NAMED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "charts/nitro/README.md": "chart.md",
}
"""Pages of the repository outside docs/ -> their names on the site."""
_LINK = re.compile(r"\]\(([^)#\s]+)")


def page_of(path: Path) -> str:
    """The name on the site of a file of the repository.

    It is a page of docs/ or of the results, a named one, or a page that shows the file's text.
    """
    name = path.relative_to(ROOT).as_posix()
    if name in NAMED:
        return NAMED[name]
    if path.parent == RESULTS:
        return f"results/{path.name}"
    if path.is_relative_to(DOCS):
        if path.suffix == ".ipynb":
            return path.relative_to(DOCS).with_suffix(".md").as_posix()
        if path.is_file():
            return path.relative_to(DOCS).as_posix()
    return f"files/{name}.md"


def source_of(page: str) -> Path:
    """The file of the repository whose links a page of the site has. Links of generated pages begin in
    docs/."""
    if page.startswith("results/"):
        return RESULTS / page.removeprefix("results/")
    named = {site: name for name, site in NAMED.items()}
    return ROOT / named[page] if page in named else DOCS / page


def linked(markdown: str, source: Path) -> set[Path]:
    """Files and folders of the repository to which a page links."""
    targets = {(source.parent / link).resolve() for link in _LINK.findall(markdown) if "://" not in link}
    return {target for target in targets if target.is_relative_to(ROOT) and target.exists()}
