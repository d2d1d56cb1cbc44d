"""Errors of an environment, with the place where each was raised."""

from nitro_actor import traces, wire
from nitro_actor.config import EnvironmentConfig, EnvironmentConfigError
from nitro_actor.engines.base import EnvironmentCallError


def unbuildable(config: EnvironmentConfig, error: BaseException) -> EnvironmentConfigError:
    """The error of an environment that raised before its first rollout."""
    words = f"{type(error).__name__}: {error}{traces.raised_at(error)}"
    if isinstance(error, EnvironmentCallError):  # it already says everything
        words = str(error)
    return EnvironmentConfigError(f"environment {config.entry_point or config.id} cannot be built: {words}")


class failures:  # noqa: N801 - a context manager, read as a word
    """Turn an error of an environment into an EnvironmentCallError that says where it was raised."""

    def __init__(self, index: int | None, call: str) -> None:
        self._where = call if index is None else f"{call} of environment {index}"

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        known = isinstance(error, EnvironmentCallError | wire.WireError)
        if isinstance(error, Exception | SystemExit) and not known:
            told = f"{self._where} raised {type(error).__name__}: {error}{traces.raised_at(error)}"
            raise EnvironmentCallError(told) from error
