"""What the site makes of the repository's pages: their links, flowcharts, notebooks, and the references."""

from __future__ import annotations

import base64
import re
from importlib import import_module
from xml.etree import ElementTree

import pytest
from mkdocs.structure.files import File, Files

import nitro_learner as nitro
from docs_support import ROOT
from nitro_api.schema.openapi import fields
from nitro_learner.cli.program import installed
from nitro_website import commands, job_reference, notebooks, python_reference
from nitro_website.diagrams import arrows, with_pictures
from nitro_website.links import RepositoryLinks

SITE = ["index.md", "concepts.md", "chart.md", "results/paper-small.md", "files/examples/hopper.yaml.md"]
CHART = "```mermaid\nflowchart TD\n    main --> first & second\n    first --> last\n    alone\n```\n"


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("index.md", "docs/concepts.md#a-round", "concepts.md#a-round"),
        ("index.md", "examples/hopper.yaml", "files/examples/hopper.yaml.md"),
        ("concepts.md", "../README.md#the-job", "index.md#the-job"),
        # The results have the addresses that they had in docs/.
        ("concepts.md", "../experiments/results/paper-small.md", "results/paper-small.md"),
        ("results/paper-small.md", "../../docs/concepts.md", "../concepts.md"),
        ("chart.md", "../../docs/concepts.md", "concepts.md"),
        ("concepts.md", "#a-round", "#a-round"),
        ("concepts.md", "https://example.com/docs/concepts.md", "https://example.com/docs/concepts.md"),
        # What has no page stays as it is: mkdocs complains of it.
        ("concepts.md", "missing.md", "missing.md"),
        ("concepts.md", "../examples/walker2d.yaml", "../examples/walker2d.yaml"),
        ("concepts.md", "../../outside.md", "../../outside.md"),
    ],
)
def test_a_link_leads_to_the_page_of_its_file(page: str, link: str, expected: str) -> None:
    links = RepositoryLinks()
    links.files = Files([File(name, None, "site", use_directory_urls=True) for name in SITE])
    links.page = page
    assert links.target(link) == expected


def test_a_flowchart_becomes_a_picture_with_its_boxes_arrows_and_words() -> None:
    before, _, after = with_pictures(f"Text.\n\n{CHART}\n| a | b |\n").partition('<div class="flowchart">')
    assert before == "Text.\n\n\n"
    assert after.endswith("</div>\n\n\n| a | b |\n")
    picture = ElementTree.fromstring(after[: after.index("</svg>") + len("</svg>")])
    assert {text.text for text in picture.iter("text")} == {"main", "first", "second", "last", "alone"}
    assert len(picture.findall("path")) == 3
    assert picture.get("aria-label") == "main imports first, second; first imports last"


def test_every_flowchart_of_the_pages_is_one_that_the_site_draws() -> None:
    for path in (ROOT / "docs").rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        assert "```mermaid" not in with_pictures(text), path
    assert arrows("    a --> b & c\n    c --> b\n    d\n") == {"a": ["b", "c"], "b": [], "c": ["b"], "d": []}


def test_the_reference_of_the_job_has_every_field_with_what_is_allowed() -> None:
    pages = job_reference.pages()
    anchors = [anchor for page in pages.values() for anchor in re.findall(r"{ #(\S+) }", page)]
    known = [path.replace("[]", "") for path, _ in fields() if path.split(".")[0] in ("spec", "status")]
    assert sorted(anchors) == sorted(set(known))
    scaling = pages["reference/job/scaling.md"]
    decay = scaling[scaling.index("{ #spec.scaling.decay }") : scaling.index("{ #spec.scaling.window }")]
    assert "a number above 0 and at most 1; default: paper 0.96, tuned" in decay
    assert "\n{ .facts }\n" in decay
    actor = pages["reference/job/actor.md"]
    timeout = actor[actor.index("{ #spec.actor.timeoutSeconds }") :]
    assert re.match(r".*\n\n.*unit: seconds; default: .*\n", timeout)
    assert re.search(r"#### bucket .*\n\n.*; required\n", pages["reference/job/learner.md"])


def test_each_section_of_a_job_has_a_page_of_its_fields_and_the_jobs_page_links_them() -> None:
    pages = job_reference.pages()
    for section in job_reference.sections():
        page = pages[job_reference.page_of(section)]
        assert page.startswith(f"# spec.{section}"), "one heading of the first level, the page's title"
        assert len(re.findall("^# ", page, re.MULTILINE)) == 1
        fields_of_it = re.findall(r"{ #(\S+) }", page)
        assert all(anchor.startswith(f"spec.{section}") for anchor in fields_of_it)
        assert f"]({section}.md)" in pages["reference/job/index.md"]


def test_the_reference_of_the_commands_has_each_with_its_options() -> None:
    page = commands.page()
    assert re.findall(r"^## nitro (\S+)$", page, re.MULTILINE) == list(installed())
    assert "\n### nitro experiment report\n" in page
    for words in ("--run-dir D", "nitro train examples/hopper.yaml", "exit codes:", "--prices FILE"):
        assert words in page
    assert max(map(len, page.splitlines())) <= 140


def test_the_reference_of_the_library_has_every_public_name() -> None:
    assert set(python_reference.PUBLIC) == {f"nitro.{name}" for name in nitro.__all__}
    for name, path in python_reference.PUBLIC.items():
        thing = getattr(nitro, name.removeprefix("nitro."))
        assert path == f"{thing.__module__}.{thing.__qualname__}"
    for path in python_reference.TOLD:
        module, _, name = path.rpartition(".")
        assert isinstance(getattr(import_module(module), name), type)


def test_a_notebook_becomes_a_page_with_its_pictures() -> None:
    path = ROOT / "docs" / "tutorials" / "drawn.ipynb"
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["1 2\n"]},
        {"output_type": "stream", "name": "stdout", "text": ["3\n"]},
        {"output_type": "display_data", "data": {"image/png": base64.b64encode(b"png").decode()}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Text."]},
        {"cell_type": "code", "source": "draw()", "outputs": outputs},
    ]
    text, pictures = notebooks.of_cells(cells, path)
    assert text.startswith("# Title\nText.\n\n```python\ndraw()\n```\n\n```text\n1 2\n3\n```\n\n![")
    assert text.endswith("](drawn-1.png)\n")
    assert pictures == {"tutorials/drawn-1.png": b"png"}
