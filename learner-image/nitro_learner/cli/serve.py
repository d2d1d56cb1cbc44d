"""Serve a trained policy over HTTP. It is loaded once; requests carry observations and get actions.

On a cluster: examples/serving/knative.yaml is a Knative Service that scales to zero.

examples:
  nitro serve runs/hopper-20260101-120000
  nitro serve s3://bucket/runs/hopper-1a2b --host 0.0.0.0 --port 8080
  nitro serve runs/hopper-20260101-120000 --best
  nitro serve hopper/policy.safetensors           # as `nitro export --format safetensors` writes it
  curl localhost:8080/v1/act --json '{"observation": [0, 0, 0, 0]}'
"""

import argparse
import os

from nitro_learner.cli import interrupts
from nitro_learner.cli.common import add_best, policy_loaded, some_text
from nitro_learner.cli.exits import BAD_INPUT, DONE, CommandError

_PORT = 8080


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run",
        type=some_text,
        help="run folder, checkpoint file, exported policy.safetensors, or s3://BUCKET/PREFIX/RUN",
    )
    add_best(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, metavar="N", help=f"port; 0 takes a free one (default: $PORT, else {_PORT})"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of actions that are drawn (default: random)")


def run(arguments: argparse.Namespace) -> int:
    import asyncio

    from nitro_learner.api.loading import load
    from nitro_learner.deployment.serving.app import serve

    port = arguments.port
    if port is None:
        told = os.environ.get("PORT", str(_PORT))
        if not told.isdecimal():
            raise CommandError(f"PORT={told}: must be a port, from 0 to 65535; or give --port")
        port = int(told)
    if arguments.seed is not None and arguments.seed < 0:
        raise CommandError(f"--seed {arguments.seed}: must be 0 or more")
    if not 0 <= port <= 65535:
        raise CommandError(f"--port {port}: must be from 0 to 65535")
    with policy_loaded():
        policy = load(arguments.run, best=arguments.best, seed=arguments.seed)

    def listening(address: str) -> None:
        print(f"serving round {policy.round} of {arguments.run} on {address}", flush=True)

    interrupts.orderly()
    try:
        asyncio.run(serve(policy, arguments.host, port, listening))
    except OSError as error:
        reason = error.strerror or str(error)
        raise CommandError(f"--host {arguments.host} --port {port}: {reason}", BAD_INPUT) from None
    return DONE
