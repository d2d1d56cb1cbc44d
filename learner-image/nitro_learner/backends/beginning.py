"""What begins before a training's modules are imported: both take seconds, on cores of their own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nitro_api import JobSpec
from nitro_learner.backends.local import LocalBackend

if TYPE_CHECKING:
    from nitro_learner.run.checking.process import EnvironmentCheck


@dataclass(frozen=True)
class Beginning:
    """What has begun.

    Attributes:
        loop: the event loop of the training.
        actors: of this machine, with their Redis; None where the actors are elsewhere.
        check: of the environment; None where nothing is checked.
    """

    loop: asyncio.Runner
    actors: LocalBackend | None
    check: EnvironmentCheck | None

    def meanwhile(self, function: Callable[[], None]) -> None:
        """Call a function in a thread of its own, while the loop runs."""
        self.loop.run(asyncio.to_thread(function))


@contextlib.contextmanager
def beginning(spec: JobSpec, check: EnvironmentCheck | None) -> Iterator[Beginning]:
    """Have the actors of this machine start. They end with the block at the latest."""
    with asyncio.Runner() as loop:
        if spec.backend.type == "Lambda":
            yield Beginning(loop, None, check)
            return
        actors = LocalBackend(spec, "")
        try:
            loop.run(actors.begin())
            yield Beginning(loop, actors, check)
        finally:
            loop.run(actors.close())
