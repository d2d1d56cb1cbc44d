"""Entry points: what a job names as `module:attribute`, and what to do where it cannot be loaded."""

import hashlib
import importlib
import os
import sys
from importlib.machinery import PathFinder
from operator import attrgetter
from pathlib import Path
from typing import Any

from nitro_actor import traces
from nitro_actor.config import EnvironmentConfigError, NotInstalled

ACTOR_IMAGE = "the actor's image"
_IN_AN_IMAGE = ("KUBERNETES_SERVICE_HOST", "AWS_LAMBDA_FUNCTION_NAME")
"""Variables that only a cluster and Lambda set: there an image has to hold the user's code."""


class CodeError(EnvironmentConfigError):
    """The package of the job's code cannot be used. The text says why and what to do."""


def find_code() -> None:
    """Let Python find the modules of the job's code, behind all that are installed: it replaces none.

    NITRO_CODE is their folder, or the package that `nitro code` made. NITRO_CODE_SHA256, which a cluster
    sets, is the digest that the package must have.

    Raises:
        CodeError: it cannot be read, or has another digest. Nothing of it has been imported.
    """
    place, digest = os.environ.get("NITRO_CODE"), os.environ.get("NITRO_CODE_SHA256")
    if not place or place in sys.path:
        return
    if digest:
        try:
            found = hashlib.sha256(Path(place).read_bytes()).hexdigest()
        except OSError as error:
            raise CodeError(f"spec.code: {place} cannot be read ({error.strerror}); {_REPLACED}") from error
        if found != digest:
            raise CodeError(
                f"spec.code: the package in {place} has the digest {found}, and the job says {digest}; "
                f"nothing of it is imported. {_REPLACED}"
            )
    sys.path.append(place)


_REPLACED = (
    "Somebody has replaced its ConfigMap: suspend the job, delete the ConfigMap, apply again what "
    "`nitro code` writes for the job's code, and resume the job."
)


def find_here() -> None:
    """Let Python find modules in the current folder. It does so for the actors, which `python -m` starts, and
    not for an installed program."""
    here = str(Path.cwd())
    if here not in sys.path and not sys.flags.safe_path:
        sys.path.insert(0, here)


def load(entry_point: str, *, image: str = ACTOR_IMAGE, ours: Path = traces.OURS) -> Any:
    """Import what an entry point names.

    Args:
        image: what has to hold the user's code on a cluster.
        ours: the package that loads it; an error's place is not in it.

    Raises:
        EnvironmentConfigError: it cannot be loaded; the text says what to do.
    """
    module, separator, attribute = entry_point.partition(":")
    if not separator:
        raise EnvironmentConfigError(f"entryPoint is {entry_point!r}; write it as module:attribute")
    try:
        loaded = importlib.import_module(module)
    except ImportError as error:
        where = traces.raised_at(error, ours=ours)  # empty if the user's module itself is missing
        reason = traces.cut(traces.text(error), traces.MOST_SENTENCE // 2)
        missing = isinstance(error, ModuleNotFoundError)
        remedy = _remedy(module, error.name, image)
        raise (NotInstalled if missing else EnvironmentConfigError)(
            f"entryPoint {entry_point} cannot be loaded ({reason}{where}); {remedy}"
        ) from (error if where else None)
    except BaseException as error:  # a user's module may raise anything on import
        if not traces.of_its_code(error):
            raise
        there = f" in {image}" if _in_an_image() else ""
        where = traces.raised_at(error, ours=ours)
        raise EnvironmentConfigError(
            f"entryPoint {entry_point} cannot be loaded: importing {module} raised "
            f"{traces.words(error)}{where}; `python -c 'import {module}'`{there} must pass"
        ) from error
    try:
        return attrgetter(attribute)(loaded)
    except AttributeError as error:
        remedy = "correct what stands after the colon"
        if (taken := _installed_instead(module, loaded)) is not None:
            remedy = f"{taken} is installed, and goes before the module of the job's code: rename yours"
        raise EnvironmentConfigError(
            f"entryPoint {entry_point} cannot be loaded ({error}); {remedy}"
        ) from error


def _installed_instead(module: str, loaded: Any) -> str | None:
    """The file of an installed module that was imported although the job's code has one of that name."""
    code, file = os.environ.get("NITRO_CODE"), getattr(loaded, "__file__", None)
    if not code or file is None or file.startswith(code):
        return None
    return file if PathFinder.find_spec(module.partition(".")[0], [code]) is not None else None


def _remedy(module: str, missing: str | None, image: str) -> str:
    """What to do when an entry point's module, or a module that it imports, is missing."""
    if os.environ.get("NITRO_CODE_SHA256"):
        return (
            f"pack {missing or module} too, with `nitro code`, or, if it is not yours, install it in "
            f"{image}: spec.code brings only your own files"
        )
    if _in_an_image():
        brought = ", or bring it by spec.code (docs/own-parts.md)" if _IN_AN_IMAGE[0] in os.environ else ""
        return f"install its package in {image}{brought}"
    top = module.partition(".")[0]
    if missing is not None and missing.partition(".")[0] != top:
        return f"install what {module} needs for the Python that runs Nitro, {sys.executable}"
    return (
        f"run nitro in the folder that holds {top} (now it runs in {Path.cwd()}), or add that folder to "
        "PYTHONPATH"
    )


def package_missing(id_: str, error: ModuleNotFoundError) -> NotInstalled:
    """The error of an environment whose id names a module that is not installed, or that lacks another."""
    needed = str(error.name).partition(".")[0]
    return NotInstalled(
        f"environment {id_} needs the package {needed}, which is not installed; {where_to_install(needed)}"
    )


def where_to_install(package: str) -> str:
    """What to do when a package that a job names is missing."""
    if _in_an_image():
        return f"install {package} in the actor's image"
    return f"install {package} for the Python that runs Nitro, {sys.executable}"


def _in_an_image() -> bool:
    return any(name in os.environ for name in _IN_AN_IMAGE)
