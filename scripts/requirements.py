"""Print what the named packages need from outside this repository, one requirement per line.

    python scripts/requirements.py crds operator > requirements.txt

The Dockerfiles install these before they copy any code, so that a change of code does not install torch anew.
Extras are written FOLDER[EXTRA,...], as for pip.
"""

import re
import sys
import tomllib
from pathlib import Path


def requirements(packages: list[str]) -> list[str]:
    """The third-party requirements of `packages` (folders with a pyproject.toml), sorted, each once.

    Raises:
        KeyError: a folder has no such extra.
    """
    found: set[str] = set()
    own: set[str] = set()
    for package in packages:
        folder, _, extras = package.removesuffix("]").partition("[")
        project = tomllib.loads((Path(folder) / "pyproject.toml").read_text())["project"]
        own.add(project["name"])
        found.update(project["dependencies"])
        for extra in filter(None, extras.split(",")):
            found.update(project["optional-dependencies"][extra])
    return sorted(one for one in found if re.split(r"[^\w-]", one, maxsplit=1)[0] not in own)


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
