"""Pages of the site that are no files of docs/: the repository's others, references, and linked files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from nitro_website import commands, job_reference, python_reference
from nitro_website.notebooks import as_page
from nitro_website.repository import DOCS, NAMED, RESULTS, ROOT, linked, page_of

STYLE = ROOT / "website" / "style"
_LANGUAGES = {".md": "markdown", ".tpl": "yaml", ".yml": "yaml"}
_UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n"


def add_pages(files: Files, config: MkDocsConfig) -> None:
    """Add every generated page and file."""
    for name, content in _contents():
        files.append(File.generated(config, name, content=content))
    for notebook in list(files):
        if notebook.src_uri.endswith(".ipynb"):
            files.remove(notebook)


def _contents() -> Iterator[tuple[str, str | bytes]]:
    """Name on the site -> text or bytes."""
    sources = {path: path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
    for name, page in NAMED.items():
        sources[ROOT / name] = (ROOT / name).read_text(encoding="utf-8")
        yield page, sources[ROOT / name]
    for path in RESULTS.iterdir():
        if path.suffix == ".md":
            sources[path] = path.read_text(encoding="utf-8")
        yield page_of(path), path.read_bytes()
    for path in DOCS.rglob("*.ipynb"):
        text, pictures = as_page(path)
        sources[path] = text
        yield page_of(path), text
        yield from pictures.items()
    yield from job_reference.pages().items()
    yield "reference/commands.md", commands.page()
    yield "reference/python.md", python_reference.page()
    for style in STYLE.iterdir():
        yield f"assets/{style.name}", style.read_bytes()
    targets = {target for path, text in sources.items() for target in linked(text, path)}
    for target in sorted(targets):
        if (name := page_of(target)).startswith("files/"):
            yield name, _shown(target)


def _shown(path: Path) -> str:
    """A page with the text of a file, or the names in a folder."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        names = sorted(f"{child.name}{'/' if child.is_dir() else ''}" for child in path.iterdir())
        return f"{_UNSEARCHED}# {name}/\n\nA folder of the repository:\n\n" + "".join(
            f"- `{one}`\n" for one in names
        )
    language = _LANGUAGES.get(path.suffix, path.suffix.removeprefix(".") or "text")
    text = path.read_text(encoding="utf-8")
    return f"{_UNSEARCHED}# {name}\n\nA file of the repository:\n\n~~~~~~ {language}\n{text}\n~~~~~~\n"
