"""The front as a process of its own: python -m lambda_front --port 9001 --environment '{"id": "Hopper-v5"}'

Prints {"event": "listening", "url": ...} and serves until SIGTERM. Any function name is answered where
--environment is given; else functions come from --control-plane. GET /front/bills gives the account,
PUT /front/knobs changes knobs.
"""

import argparse
import asyncio
import json
import signal
from pathlib import Path

from lambda_front.front import Front, serve
from lambda_front.knobs import Function, Knobs


class _AnyName(dict[str, Function]):
    """One function under every name."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function

    def get(self, name: str, default: object = None) -> Function:  # type: ignore[override]  # noqa: ARG002
        return self._function


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--environment", help="NITRO_ENVIRONMENT of the one function")
    parser.add_argument("--control-plane", metavar="URL", help="a moto server that keeps functions")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--concurrency", type=int, default=1000)
    parser.add_argument("--billing-file", type=Path)
    options = parser.parse_args()
    front = Front(
        knobs=Knobs(concurrency=options.concurrency, billing_file=options.billing_file),
        control_plane=options.control_plane,
    )
    if options.environment:
        variables = {"NITRO_ENVIRONMENT": options.environment}
        front.functions = _AnyName(Function(variables, options.memory, options.timeout))
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with serve(front, options.host, options.port) as (_, url):
        print(json.dumps({"event": "listening", "url": url}), flush=True)
        await stop.wait()


asyncio.run(main())
