"""Code blocks of the documentation: which of them run, how they are made small, and which cannot run here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from docs_support import ROOT, commands

NOT_RUN = {
    "needs a cluster": (
        r"kubectl |helm |kind |make kind$|make e2e$|scripts/|nitro report cartpole|nitro (top|submit|follow)"
    ),
    "needs docker": r"docker |(?:[A-Z_]+=\S+ )*make images$|IMAGE_COMMAND=|REGISTRY=",
    "needs AWS": (
        r"aws |nitro train --backend lambda|nitro train .*--from s3://|cp -r docs/aws |sed .*my-policies"
        r"|sed .*hopper-lambda"
    ),
    "serves until it is stopped (tests/integration/test_serve.py)": r"nitro serve|curl |tensorboard ",
    "installs something, or builds the environment": r"pip (install|download)|make environment$|source ",
    "takes minutes to hours": (
        r"make (run|bench|test|paper-small|test-\w+|docs|lint-files|release)\b"
        r"|nitro (pretrain-scaler|detector|landscape) "
        r"|nitro plan |nitro experiment (run|report) |nitro train examples/(spaceinvaders|hopper-minionsrl)"
        r"|nitro train .*--run-dir runs/tuned$|OMP_NUM_THREADS=\d nitro train|python tests/"
        r"|nitro evaluate FOLDER"
    ),
    "changes the checkout": r"make (format|generate|constraints|audit)$",
    "needs Ray, in an environment of its own": r"nitro train examples/hopper-rllib|.*build/rllib/bin/",
    "the input of a command above it": r"cp |sed |grep |tail |tr |sleep ",
}
"""Why commands of the pages are not run -> those commands, as a pattern of their beginning."""

SMALL = {
    "spec.environment.rolloutLength": 32,
    "spec.environment.envsPerActor": 2,
    "spec.evaluation.episodes": 1,
    "spec.stop": "{rounds: 1}",
}
"""Fields with which a training of the pages is quick; the files and all other fields are theirs."""
FEW = {"spec.scaling.minActors": 1, "spec.scaling.initialActors": 1, "spec.scaling.maxActors": 2}
PROGRAMS = re.compile(
    r"(?:[A-Z_]+=\S* )*(?:build/rllib/bin/)?"
    r"(?:nitro|make|kubectl|helm|kind|docker|aws|pip|python|curl|tensorboard|source|cp|sed|scripts/\w+) "
)


@dataclass(frozen=True)
class Block:
    """A code block: its language, if it names one, and its text."""

    language: str
    text: str

    @property
    def lines(self) -> list[list[str]]:
        """Its commands as words; none if it is no shell's."""
        if self.language not in ("", "sh", "bash"):
            return []
        return [words for words in commands(self.text) if PROGRAMS.match(shlex.join(words) + " ")]

    @property
    def module(self) -> str | None:
        """The name of the file that a block of Python is, where its first line says so: `# line.py`."""
        found = re.match(r"# (\w+\.py)\n", self.text) if self.language == "python" else None
        return found[1] if found else None


def blocks(page: Path) -> Iterator[Block]:
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        if token.type in ("code_block", "fence"):
            yield Block(token.info.strip(), token.content)


def reason(words: list[str]) -> str | None:
    """Why a command is not run; None if it is."""
    line = " ".join(words)
    return next((why for why, pattern in NOT_RUN.items() if re.match(pattern, line)), None)


def small(words: list[str]) -> list[str]:
    """The arguments of a command of `nitro`, with its file patterns expanded, and its training made small."""
    found = [
        path
        for word in words[1:]
        for path in (sorted(map(str, Path().glob(word))) if "*" in word else [word])
    ]
    if found[0] != "train":
        return found
    if "--resume" in found:
        return [re.sub(r"^spec\.stop\.rounds=\d+$", "spec.stop.rounds=2", word) for word in found]
    fields = {**SMALL, **FEW}
    return [*found, *(part for path, value in fields.items() for part in ("--set", f"{path}={value}"))]


def prepare(folder: Path) -> None:
    """What the commands find in the top folder of a clone: links to its folders."""
    for name in ("examples", "experiments", "docs", "charts"):
        (folder / name).symlink_to(ROOT / name)
