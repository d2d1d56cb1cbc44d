"""The emulator of ale-py and its games, without gymnasium, which `import ale_py` would load."""

import difflib
import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from nitro_actor.config import EnvironmentConfigError, NotInstalled

_EXTENSION = "ale_py._ale_py"
_VERSION = "-v5"


@functools.cache
def library() -> Any:
    """ale-py's extension module, which logs errors only.

    Raises:
        EnvironmentConfigError: it is not installed.
    """
    module = sys.modules.get(_EXTENSION)
    if module is None:
        spec = importlib.machinery.PathFinder.find_spec(_EXTENSION, [str(_folder())])
        if spec is None or spec.loader is None:
            raise EnvironmentConfigError(
                "ale-py is damaged: install it anew (pip install --force-reinstall ale-py)"
            )
        module = importlib.util.module_from_spec(spec)
        sys.modules[_EXTENSION] = module
        spec.loader.exec_module(module)
    module.ALEInterface.setLoggerMode(module.LoggerMode.Error)
    return module


def rom(name: str) -> Path:
    """The file of a game by the name in its id, such as SpaceInvaders-v5.

    The file is checked here because the emulator ends the process if it does not know a file.

    Raises:
        EnvironmentConfigError: there is no such game, or its file is missing or is not the expected one.
    """
    folder = _folder() / "roms"
    sums = json.loads((folder / "md5.json").read_text())
    games = {_title(file): file for file in sums}
    game = name.removesuffix(_VERSION)
    if game not in games or not name.endswith(_VERSION):
        close = difflib.get_close_matches(game, games, n=1)
        hint = f"did you mean ALE/{close[0]}{_VERSION}?" if close else "an id looks like ALE/SpaceInvaders-v5"
        raise EnvironmentConfigError(f"there is no Atari game ALE/{name}; {hint}")
    path: Path = folder / games[game]
    data = path.read_bytes() if path.is_file() else b""
    if hashlib.md5(data, usedforsecurity=False).hexdigest() != sums[games[game]]:
        what = "is not the one that ale-py knows" if data else "is missing"
        raise EnvironmentConfigError(
            f"the ROM of ALE/{name} {what} ({path}); install ale-py 0.11 or newer anew, which brings all ROMs"
        )
    if library().ALEInterface.isSupportedROM(str(path)) is None:
        raise EnvironmentConfigError(f"ALE/{name} is a game for two players only; choose another")
    return path


def _folder() -> Path:
    spec = importlib.util.find_spec("ale_py")
    if spec is None or spec.origin is None:
        raise NotInstalled("Atari games need ale-py in the actor's image: pip install ale-py")
    return Path(spec.origin).parent


def _title(file: str) -> str:
    """The game's name as in gymnasium's ids, such as SpaceInvaders for space_invaders.bin."""
    return file.removesuffix(".bin").title().replace("_", "")
