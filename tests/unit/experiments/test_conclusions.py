"""What a report opens with, and the report as one HTML file."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from experiment_support import no_overview, pretend, write_spec
from nitro_experiments.planning.plan import plan
from nitro_experiments.planning.spec import load
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.writing import experiment_report, markdown_page

VARIANTS: dict[str, dict[str, str]] = {
    "a": {},
    "b": {},
    "c": {},
    "chance": {"spec.scaling.scaler": "random-score"},
}


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment_report, "draw_overview", no_overview)
    monkeypatch.setattr(experiment_report, "draw_metric", lambda *_, **_modelled: False)


def opening(directory: Path, **changes: object) -> list[str]:
    """The lines below the title. b is 10 to 19 better than a, and c is as good as a."""
    spec = load(write_spec(directory, **{"seeds": list(range(10)), "variants": VARIANTS, **changes}))
    folder = ExperimentDir(directory / "results")
    folder.open(spec)
    for run in plan(spec):
        gain = {"a": 0.0, "b": 10.0 + run.seed, "c": (-1) ** run.seed, "chance": -1.0 - run.seed}[run.variant]
        pretend(folder, run, actors=[4, 4], returns=[0, 50 + gain], cents=2 if run.variant == "b" else 1)
    title, answers, *_ = experiment_report.write(folder, spec).split("\n\n")
    assert title == f"# {spec.title or spec.name}"
    return answers.splitlines()


def test_a_report_opens_with_the_answers_to_its_questions(tmp_path: Path) -> None:
    asked = {"1. b?": ["b", "a"], "2. c?": ["c", "a"], "3. a?": ["a", "b"], "4. a?": ["a", "chance"]}
    better, none, worse, chance = opening(tmp_path, questions=asked, title="Which one?")
    assert better == (
        "- **1. b?** Shown to be better: `b` against `a` changes the return of 50.0 by +14.5 [+12.3, +16.7], "
        "10 seeds. The cost of the budget is higher, +100.0 % [+100.0, +100.0]. Take `b`."
    )
    assert none.startswith(
        "- **2. c?** Not shown to be better: `c` against `a` changes the return of 50.0 by +0.0"
    )
    assert none.endswith("10 seeds. Keep `a`.")
    assert worse.startswith("- **3. a?** Shown to be worse: `a` against `b`")
    assert "The cost of the budget is lower, -50.0 %" in worse
    assert "Keep" not in worse, "what is worse and cheaper may still be the one to take"
    assert chance.endswith("10 seeds."), "a control is nothing that one could keep"


def test_without_questions_it_opens_with_the_comparisons(tmp_path: Path) -> None:
    few = opening(tmp_path, seeds=[0, 1], variants={"a": {}, "b": {}})
    assert few == [
        "- **Too few seeds for a verdict, which needs 10**: `b` against `a` changes the return of 50.0 by "
        "+10.5 [+4.1, +16.9], 2 seeds. Keep `a`."
    ]


def test_settings_that_a_search_found_are_not_to_be_taken_before_they_are_shown_to_be_better(
    tmp_path: Path,
) -> None:
    spec = load(write_spec(tmp_path, seeds=list(range(10)))).comparing("trial-2", {})
    folder = ExperimentDir(tmp_path / "results")
    folder.open(spec)
    for run in plan(spec):
        gain = (-1) ** run.seed if run.variant == "trial-2" else 0
        pretend(folder, run, actors=[4, 4], returns=[0, 50 + gain])
    text = experiment_report.write(folder, spec, searched="## The search\n")
    assert text.index("Not shown to be better") < text.index("## The search") < text.index("| variant |")
    assert "10 seeds. Keep your settings.\n" in text
    nothing = experiment_report.write(
        folder,
        spec.model_copy(update={"seeds": [], "variants": {}}),
        opening="- **No trial was better.**",
        searched="...",
    )
    assert nothing.startswith("# two\n\n- **No trial was better.**\n")


class _Checked(HTMLParser):
    """Whether all tags are closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_html_file_too(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "one.png").write_bytes(b"\x89PNG")
    text = (
        "# Is 1 < 2?\n\n- **Is b?** Yes: `b` <is>.\n- No.\n\nTwo\nlines.\n\n```yaml\nspec: {a: '<'}\n```\n\n"
        "| a | b |\n| --- | ---: |\n| x |  |\n\n![A picture](figures/one.png)\n"
    )
    page = markdown_page.page(text, tmp_path)
    assert "<title>Is 1 &lt; 2?</title>" in page
    assert "<h1>Is 1 &lt; 2?</h1>" in page
    assert "<li><strong>Is b?</strong> Yes: <code>b</code> &lt;is&gt;.</li><li>No.</li>" in page
    assert "<p>Two lines.</p>" in page
    assert "<pre>spec: {a: &#x27;&lt;&#x27;}</pre>" in page
    assert '<tr><td>x</td><td class="number"></td></tr>' in page
    assert 'src="data:image/png;base64,iVBORw==" alt="A picture"' in page
    assert re.findall(r'(?:src|href)="(?!data:)', page) == [], "the file needs nothing else"
    checked = _Checked()
    checked.feed(page)
    assert checked.open == []


def test_the_html_has_the_answer_before_any_table(tmp_path: Path) -> None:
    opening(tmp_path)
    page = (tmp_path / "results" / "report.html").read_text(encoding="utf-8")
    assert page.index("Take <code>b</code>.") < page.index("<table>")
