"""The events of mkdocs that make the site from the repository's pages."""

from __future__ import annotations

import os
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from nitro_website.diagrams import with_pictures
from nitro_website.job_reference import page_of, sections
from nitro_website.links import RepositoryLinks
from nitro_website.pages import add_pages
from nitro_website.repository import RESULTS

SEARCHED_FIRST = ("algorithms.md", "environments.md", "faq.md", "fine-tuning.md")
"""Pages that answer what people search for: the search shows them before pages that only name it."""
FIRST_COMMENT = re.compile(r"\A\s*<!--.*?-->\s*", re.DOTALL)
REPOSITORY = "NITRO_REPOSITORY"
"""The variable with the address of the repository. A build without it links none."""

_links = RepositoryLinks()


def on_config(config: MkDocsConfig) -> None:
    config.markdown_extensions.append(_links)  # type: ignore[arg-type]  # Python-Markdown takes both
    results = _entry(config.nav, "Understand", "Results")
    results += sorted(f"results/{path.name}" for path in RESULTS.glob("*.md"))
    job = _entry(config.nav, "Use", "Reference", "Job")
    job += [{section: page_of(section)} for section in sections()]
    if address := os.environ.get(REPOSITORY):
        # In the footer. The theme's own place asks GitHub for the number of stars.
        config.extra["social"] = [
            {"icon": "fontawesome/brands/git-alt", "link": address, "name": "Repository"}
        ]


def _entry(nav: Any, *names: str) -> list[Any]:
    """The part of the menu that has these names, from the outermost."""
    for name in names:
        nav = next(entry[name] for entry in nav if isinstance(entry, dict) and name in entry)
    found: list[Any] = nav
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    add_pages(files, config)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    _links.page, _links.files = page.file.src_uri, files
    if page.file.src_uri in SEARCHED_FIRST:
        page.meta["search"] = {"boost": 2}
    if page.file.src_uri.startswith("results/"):
        # Their titles are questions, with words that many search for.
        page.meta["search"] = {"boost": 0.5}
    # A page that begins with the comment of an experiment would be named after its file in the menu.
    return with_pictures(FIRST_COMMENT.sub("", markdown))
