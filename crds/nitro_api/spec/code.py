"""The user's code: Python files in an immutable ConfigMap, which the digest of their package names."""

from typing import Annotated

from pydantic import Field

CodeDigest = Annotated[str, Field(max_length=64)]
"""SHA-256 of a package of code."""

PACKAGE = "code.zip"
"""Key of the ConfigMap, and name of the file that pods mount: a ZIP archive of Python files."""
PACKAGE_VARIABLE, DIGEST_VARIABLE = "NITRO_CODE", "NITRO_CODE_SHA256"
"""Variables with the package's path and its digest; `nitro_actor.entry_points` reads them."""


CODE_PREFIX = "nitro-code-"
"""Beginning of the ConfigMaps' names."""


def config_map_name(digest: str) -> str:
    """The name of the ConfigMap that holds the package with this digest."""
    return f"{CODE_PREFIX}{digest[:16]}"
