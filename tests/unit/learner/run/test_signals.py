"""The signals that end a training."""

import asyncio
import os
import signal

from nitro_learner.run.session import signals


async def test_the_first_signal_stops_the_training_also_where_nobody_reads_its_message() -> None:
    """Ctrl-C in `nitro train job.yaml 2>&1 | tee log` ends tee, too."""

    def say() -> None:
        raise BrokenPipeError

    stop = asyncio.Event()
    with signals(stop.set, say):
        os.kill(os.getpid(), signal.SIGINT)
        async with asyncio.timeout(60):
            await stop.wait()
