"""Write the version of the file VERSION wherever else it stands.

    python scripts/version.py           # as `make generate` does
    python scripts/version.py 0.2.0     # another version first; or 0.2.0-rc.1

The places are in packages, chart, Dockerfiles, examples and pages. The files that changed are printed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FORM = re.compile(r"\d+\.\d+\.\d+(-rc\.\d+)?")
"""Versions that Helm and pip both take."""
_TAG = r"nitro-(?:actor|learner|operator)[a-z-]*:"
PLACES = {
    "*/pyproject.toml": (
        r'^version = "',
        r"\bnitro-(?:api|actor|learner|experiments|rllib)(?:\[[a-z,]+\])?==",
    ),
    "*/Dockerfile*": (r"^ARG VERSION=", _TAG),
    "charts/nitro/Chart.yaml": (r"^version: ", r"^appVersion: "),
    "CITATION.cff": (r"^version: ",),
    "examples/**/*.yaml": (_TAG,),
    "docs/*.md": (_TAG,),
    ".github/ISSUE_TEMPLATE/bug.yml": (r"placeholder: Nitro ",),
}
"""Files, and what stands before the version in them."""


def read(root: Path = ROOT) -> str:
    """The version.

    Raises:
        ValueError: VERSION holds something else.
    """
    version = (root / "VERSION").read_text().strip()
    if not FORM.fullmatch(version):
        raise ValueError(f"VERSION holds {version!r}; write it as 1.2.3 or 1.2.3-rc.1")
    return version


def write(root: Path = ROOT) -> list[Path]:
    """Write the version into all places, and return the files that changed.

    Raises:
        ValueError: VERSION holds no version, or a kind of file has no place for it.
    """
    version, changed = read(root), []
    for pattern, before in PLACES.items():
        places = re.compile(rf"((?:{'|'.join(before)})){FORM.pattern}(?![\w-]|\.\d)", flags=re.MULTILINE)
        found = 0
        for file in sorted(root.glob(pattern)):
            text = file.read_text()
            new, times = places.subn(rf"\g<1>{version}", text)
            found += times
            if new != text:
                file.write_text(new)
                changed.append(file)
        if not found:
            raise ValueError(f"no version in {pattern}: tell scripts/version.py where it stands now")
    return changed


def main(arguments: list[str]) -> None:
    """The command."""
    if arguments in (["-h"], ["--help"]):
        print(__doc__)
        return
    if len(arguments) > 1:
        sys.exit(__doc__)
    if arguments:
        if not FORM.fullmatch(arguments[0]):
            sys.exit(f"{arguments[0]!r} is no version; write it as 1.2.3 or 1.2.3-rc.1")
        (ROOT / "VERSION").write_text(arguments[0] + "\n")
    for file in write():
        print(file.relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
