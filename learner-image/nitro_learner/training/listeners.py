"""A run's listeners as one."""

import logging
import traceback
from collections.abc import Callable, Iterable

from nitro_learner.training.round_report import Listener

logger = logging.getLogger(__name__)


class Listeners:
    """Tell listeners a run's events, one after the other::

        listeners.tell(lambda listener: listener.on_round_done(report))

    A listener that is not essential cannot end the training: its first error is logged as a warning, and its
    later ones are ignored.
    """

    def __init__(self, listeners: Iterable[Listener]) -> None:
        self._listeners = list(listeners)
        self._warned: list[Listener] = []

    def tell(self, event: Callable[[Listener], None]) -> None:
        for listener in self._listeners:
            try:
                event(listener)
            except Exception as error:
                if listener.essential:
                    raise
                if listener not in self._warned:
                    self._warned.append(listener)
                    logger.warning(
                        "%s failed (%s: %s). The training goes on, and further failures of it are not told.",
                        type(listener).__name__,
                        type(error).__name__,
                        error,
                        extra={"fields": {"traceback": traceback.format_exc()}},
                    )
