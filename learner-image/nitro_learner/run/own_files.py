"""The files of a user's own parts: their digest stands in the run folder, and a run that goes on with others
says so. With spec.code the digest is a field of the job, and a run does not go on with another one."""

import hashlib
import json
import logging
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from nitro_api import JobSpec
from nitro_learner.run.rundir import RunDir, write_text

logger = logging.getLogger(__name__)


def keep_digests(folder: RunDir, spec: JobSpec, *, begun: bool) -> None:
    """Write the digests of a job's own parts; warn of each that is another than at the run's last start."""
    found = {} if spec.code else dict(_digests(spec))
    if begun:
        for name, digest in folder.read_own().items():
            if name in found and found[name] != digest:
                logger.warning(
                    "%s: its Python files are others than at this run's last start. It goes on with those of "
                    "now, so no other run repeats it to the bit",
                    name,
                )
    if found:
        write_text(folder.own, json.dumps(found, indent=2) + "\n")


def _digests(spec: JobSpec) -> Iterator[tuple[str, str]]:
    for name in (
        spec.environment.entry_point,
        spec.scaling.entry_point,
        spec.algorithm.entry_point,
        spec.network.entry_point,
        spec.network.critic_entry_point,
    ):
        files = _files(name.partition(".")[0].partition(":")[0]) if name else []
        if name and files:
            digest = hashlib.sha256()
            for file in files:
                digest.update(f"{file.name} {file.stat().st_size} ".encode() + file.read_bytes())
            yield name, digest.hexdigest()


def _files(module: str) -> list[Path]:
    """The Python files of a module or a package; none where this machine does not have it, as where actors
    have an image of their own."""
    found = PathFinder.find_spec(module, [str(Path.cwd()), *sys.path])
    if found is None:
        return []
    if found.submodule_search_locations is not None:
        places = [Path(place) for place in found.submodule_search_locations]
        return sorted(file for place in places for file in place.rglob("*.py"))
    return [Path(found.origin)] if found.origin and Path(found.origin).is_file() else []
