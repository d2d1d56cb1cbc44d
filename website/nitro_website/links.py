"""Links of the repository's pages, as they lead on the site: GitHub shows the same Markdown, unchanged."""

from __future__ import annotations

import posixpath
from typing import Any
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.structure.files import Files

from nitro_website.repository import ROOT, page_of, source_of

_BEFORE_MKDOCS = 1
"""mkdocs checks links, and gives them the addresses of the site, at priority 0."""


class RepositoryLinks(Extension):
    """An extension of Python-Markdown. A link that leads nowhere stays, so that mkdocs complains of it.

    Attributes:
        page: the name on the site of the page that is rendered.
        files: those of the site.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.page = ""
        self.files = Files([])

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  # the name is Python-Markdown's
        md.treeprocessors.register(_Rewriting(md, self), "repository-links", _BEFORE_MKDOCS)

    def target(self, link: str) -> str:
        """A link of the page's source as a link of the page on the site."""
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or not parts.path:
            return link
        file = (source_of(self.page).parent / parts.path).resolve()
        if not file.is_relative_to(ROOT) or not file.exists():
            return link
        found = page_of(file)
        if self.files.get_file_from_path(found) is None:
            return link
        relative = posixpath.relpath(found, posixpath.dirname(self.page) or ".")
        return parts._replace(path=relative).geturl()


class _Rewriting(Treeprocessor):
    def __init__(self, md: Markdown, links: RepositoryLinks) -> None:
        super().__init__(md)
        self._links = links

    def run(self, root: Element) -> None:
        for element in root.iter():
            for name in ("href", "src"):
                if link := element.get(name):
                    element.set(name, self._links.target(link))
