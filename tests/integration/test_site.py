"""The site of the documentation: it builds without a warning, and asks no other host for anything."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from docs_support import ROOT

CONFIG = ROOT / "website" / "mkdocs.yml"
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?(https?:)?//[^>]*>")


def build(config: Path, into: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        config,
        "--site-dir",
        into,
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(CONFIG, folder)
    assert built.returncode == 0, built.stderr
    return folder


def pages(site: Path) -> Iterator[tuple[str, str]]:
    for path in site.rglob("*.html"):
        yield path.relative_to(site).as_posix(), path.read_text(encoding="utf-8")


def test_every_page_of_the_repository_is_there(site: Path) -> None:
    found = {name for name, _ in pages(site)}
    docs = ROOT / "docs"
    for path in docs.rglob("*.md"):
        assert f"{path.relative_to(docs).with_suffix('').as_posix()}/index.html" in found
    for name in ("index", "changelog/index", "contributing/index", "chart/index", "reference/job/index"):
        assert f"{name}.html" in found


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    for name, text in pages(site):
        assert [tag.group() for tag in LOADED.finditer(text)] == [], name
        assert 'class="mermaid"' not in text, "the theme would load a program to draw it"
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"@import[^;]*|url\((?:https?:)?//[^)]*\)", styles) == []


def test_the_search_finds_a_field_a_command_and_a_function(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"] for entry in index["docs"]}
    assert {
        "reference/job/#spec.scaling.decay",
        "reference/commands/#nitro-train",
        "reference/python/#nitro_learner.api.loading.load",
    } <= places


def test_a_dead_link_fails_the_build(tmp_path: Path) -> None:
    """With the checks of our file, but without its pages, which take longer."""
    docs = tmp_path / "docs"
    docs.mkdir()
    dead = ["missing.md", "other.md#nowhere", "#nothing", "../outside.txt", "missing.png"]
    links = "\n".join(f"[a]({link})" for link in dead)
    (docs / "index.md").write_text(f"# Page\n\n{links}\n[b](other.md#there)\n")
    (docs / "other.md").write_text("# Other\n\n## There\n")
    ours = yaml.unsafe_load(CONFIG.read_text(encoding="utf-8"))
    config = {"site_name": "test", "validation": ours["validation"], "theme": {"name": "mkdocs"}}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(config))
    built = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert built.returncode == 1
    warnings = [line for line in built.stderr.splitlines() if line.startswith("WARNING")]
    assert [link for link in dead if not any(f"'{link}'" in line for line in warnings)] == []
    assert "there" not in "".join(warnings).replace("there is no", "")
