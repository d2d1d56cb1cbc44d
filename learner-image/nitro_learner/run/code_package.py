"""The package of a folder of code: its Python files in one ZIP archive, always of the same bytes.

Files are stored without compression, because compressed bytes differ between releases of zlib, and the digest
of equal files must not.
"""

import base64
import hashlib
import io
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from nitro_actor import entry_points
from nitro_api.spec.code import PACKAGE, PACKAGE_VARIABLE, config_map_name

IGNORE = ".nitroignore"
MOST_BYTES = 900 * 1024
"""Size limit of a package: a ConfigMap holds at most 1 MiB."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The first time that ZIP can write."""
_LARGEST = 3


class CodeFolderError(ValueError):
    """A folder cannot be packed. The text says why and what to do."""


@dataclass(frozen=True)
class CodePackage:
    """A packed folder.

    Attributes:
        data: the ZIP archive.
        files: their paths below the folder, in order.
    """

    data: bytes
    files: tuple[str, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the archive: what stands in spec.code."""
        return hashlib.sha256(self.data).hexdigest()

    def config_map(self) -> dict[str, Any]:
        """The immutable ConfigMap that holds it."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": config_map_name(self.digest),
                "labels": {"app.kubernetes.io/name": "nitro", "app.kubernetes.io/component": "code"},
            },
            "immutable": True,
            "binaryData": {PACKAGE: base64.b64encode(self.data).decode()},
        }


def pack(folder: Path) -> CodePackage:
    """Pack the Python files of a folder and of the folders in it, without what its .nitroignore names.

    Left out are hidden folders, __pycache__ and virtual environments, too.

    Raises:
        CodeFolderError: it is no folder, has no Python file, or too much of them.
        OSError: a file cannot be read.
    """
    if not folder.is_dir():
        raise CodeFolderError(f"{folder} is no folder; name the one that holds your Python files")
    ignored = _patterns(folder / IGNORE)
    files = {path: (folder / path).read_bytes() for path in sorted(_found(folder, ignored))}
    if not files:
        raise CodeFolderError(f"{folder} has no Python file to pack; name the folder that holds your modules")
    for path in files:
        top = PurePosixPath(path).parts[0].removesuffix(".py")
        if top in sys.stdlib_module_names:
            raise CodeFolderError(
                f"{folder / path}: Python has a module {top} of its own, which would be imported in place of "
                f"yours; rename it, or leave it out by a line in {folder / IGNORE}"
            )
    package = CodePackage(_archive(files), tuple(files))
    if len(package.data) > MOST_BYTES:
        largest = sorted(files, key=lambda path: len(files[path]), reverse=True)[:_LARGEST]
        named = ", ".join(f"{path} ({_kib(len(files[path]))})" for path in largest)
        raise CodeFolderError(
            f"the package of {folder} has {_kib(len(package.data))}, and at most {_kib(MOST_BYTES)} fit into "
            f"a ConfigMap. Its largest files: {named}. Leave files out by a line each in {folder / IGNORE}, "
            "or build an image with the code"
        )
    return package


def _archive(files: Mapping[str, bytes]) -> bytes:
    # Python imports a folder without __init__.py from an archive only if the folder has an entry of its own.
    folders = {f"{parent}/": b"" for path in files for parent in PurePosixPath(path).parents[:-1]}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for path, content in sorted({**folders, **files}.items()):
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16  # as on Unix, on every system
            archive.writestr(entry, content)
    return packed.getvalue()


def find(folder: Path) -> CodePackage:
    """Pack a folder, and let this process, and the actors that it starts, find its modules.

    Raises:
        CodeFolderError, OSError: as `pack`.
    """
    package = pack(folder)
    os.environ[PACKAGE_VARIABLE] = str(folder.resolve())
    entry_points.find_code()
    return package


def _kib(size: int) -> str:
    return f"{-(-size // 1024):,} KiB"


def _found(folder: Path, ignored: list[str]) -> Iterator[str]:
    """The paths of the Python files, relative to the folder and with slashes."""
    for place, folders, names in os.walk(folder):
        here = Path(place)
        below = PurePosixPath(here.relative_to(folder).as_posix())
        folders[:] = [
            name
            for name in folders
            if not (name.startswith(".") or name == "__pycache__" or (here / name / "pyvenv.cfg").exists())
            and not _matches(below / name, ignored, folder=True)
        ]
        for name in names:
            path = below / name
            if name.endswith(".py") and (here / name).is_file() and not _matches(path, ignored, folder=False):
                yield str(path)


def _patterns(file: Path) -> list[str]:
    """The patterns of a .nitroignore, a line each, as in a .gitignore but without `!` and `**`."""
    if not file.exists():
        return []
    patterns = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        if pattern.startswith("!") or "**" in pattern or "\\" in pattern:
            raise CodeFolderError(
                f"{file}, line {number}: {pattern!r} has !, ** or a backslash, which are not read here; name "
                "the files by *, ? and [ ]"
            )
        patterns.append(pattern)
    return patterns


def _matches(path: PurePosixPath, patterns: list[str], *, folder: bool) -> bool:
    """Whether a pattern names a path. One with a slash before its end begins at the folder's top; one that
    ends with a slash names folders alone."""
    for pattern in patterns:
        if pattern.endswith("/") and not folder:
            continue
        parts = pattern.strip("/").split("/")
        anchored = "/" in pattern.removesuffix("/")
        given = path.parts if anchored else path.parts[-1:]
        if len(given) == len(parts) and all(map(fnmatchcase, given, parts)):
            return True
    return False
