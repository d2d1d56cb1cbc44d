"""Print what the named packages need from outside this repository, one requirement per line.

    python scripts/requirements.py operator > requirements.txt
    python scripts/requirements.py --own operator > folders.txt

The Dockerfiles install these before they copy any code, so that a change of code does not install torch anew.
Extras are written FOLDER[EXTRA,...], as for pip. Packages of this repository that a named one needs count as
named, where their folders are here. With --own the folders of all of them are printed, not what they need.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any


def requirements(packages: list[str], *, own: bool = False) -> list[str]:
    """The third-party requirements of `packages` (folders with a pyproject.toml), sorted, each once.

    Args:
        packages: the folders, with their extras.
        own: return the folders of the packages that are needed in place of the requirements.

    Raises:
        KeyError: a folder has no such extra.
    """
    here = {path.parent.name: _project(path) for path in Path().glob("*/pyproject.toml")}
    folders = {project["name"]: folder for folder, project in here.items()}
    waiting, seen, found = list(packages), set[str](), set[str]()
    while waiting:
        if (package := waiting.pop()) in seen:
            continue
        seen.add(package)
        folder, _, extras = package.removesuffix("]").partition("[")
        if own:
            found.add(f"./{folder}")
        project = here[folder]
        needed = set(project["dependencies"])
        for extra in filter(None, extras.split(",")):
            needed.update(project["optional-dependencies"][extra])
        for one in needed:
            name = re.split(r"[^\w-]", one, maxsplit=1)[0]
            if name in folders:
                waiting.append(folders[name] + one.removeprefix(name).partition("==")[0])
            elif not own:
                found.add(one)
    return sorted(found)


def _project(path: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(path.read_text())["project"]
    return project


if __name__ == "__main__":
    words = sys.argv[1:]
    print("\n".join(requirements([word for word in words if word != "--own"], own="--own" in words)))
