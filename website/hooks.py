"""The events of mkdocs that make the site from the repository's pages."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from nitro_website.diagrams import with_pictures
from nitro_website.links import RepositoryLinks
from nitro_website.pages import add_pages
from nitro_website.repository import DOCS

_links = RepositoryLinks()


def on_config(config: MkDocsConfig) -> None:
    config.markdown_extensions.append(_links)  # type: ignore[arg-type]  # Python-Markdown takes both
    understand = next(section["Understand"] for section in config.nav or () if "Understand" in section)
    results = next(entry["Results"] for entry in understand if "Results" in entry)
    results += sorted(path.relative_to(DOCS).as_posix() for path in (DOCS / "results").glob("*.md"))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    add_pages(files, config)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    _links.page, _links.files = page.file.src_uri, files
    return with_pictures(markdown)
