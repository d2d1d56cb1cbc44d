"""Errors of an environment, with the place where each was raised."""

import warnings
from typing import Any

from nitro_actor import traces, wire
from nitro_actor.config import EnvironmentConfig, EnvironmentConfigError
from nitro_actor.engines import returned
from nitro_actor.engines.base import EnvironmentCallError


def unbuildable(config: EnvironmentConfig, error: BaseException) -> EnvironmentConfigError:
    """The error of an environment that raised before its first rollout."""
    words = f"{traces.words(error)}{traces.raised_at(error)}"
    if isinstance(error, EnvironmentCallError):  # it already says everything
        words = str(error)
    return EnvironmentConfigError(f"environment {config.entry_point or config.id} cannot be built: {words}")


def close(environment: Any, index: int) -> None:
    """Close a copy. Nothing depends on it any more, so its errors are only told."""
    try:
        environment.close()
    except BaseException as error:
        if not traces.of_its_code(error):
            raise
        message = f"close of environment {index} raised {traces.words(error)}{traces.raised_at(error)}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)


class failures:  # noqa: N801 - a context manager, read as a word
    """Turn an error of an environment into an EnvironmentCallError that says where it was raised."""

    def __init__(self, index: int | None, call: str) -> None:
        self._index, self._call = index, call

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        known = isinstance(error, EnvironmentCallError | wire.WireError)
        if error is not None and not known and traces.of_its_code(error):
            where = self._call if self._index is None else f"{self._call} of environment {self._index}"
            message = f"{where} raised {traces.words(error)}{traces.raised_at(error)}"
            raise EnvironmentCallError(message + _remedy(error, self._call)) from error


def _remedy(error: BaseException, call: str) -> str:
    """What to do, where an error comes from an interface that the call does not have; else empty."""
    if call == "reset" and isinstance(error, TypeError) and "argument 'seed'" in str(error):
        return (
            "; reset takes a seed: write def reset(self, *, seed=None, options=None), call "
            "super().reset(seed=seed), and draw from self.np_random"
        )
    return returned.unpacked(error, call)
