"""The Lambda function's entry point: `python -m awslambdaric nitro_actor.lambda_handler.handle`.

Importing this module is the init phase: it builds the environment, once per sandbox. Settings come from
environment variables: NITRO_ENVIRONMENT, NITRO_REDIS_URL where weights and fragments go through Redis, and
NITRO_TOKEN_SHA256, the hash of the token that events must carry (absent: none). Nothing is written to /tmp.
"""

import os
import time

import nitro_actor.startup  # noqa: F401 - before numpy loads
from nitro_actor.actor import Actor
from nitro_actor.answers import log_uncut
from nitro_actor.config import EnvironmentConfig, EnvironmentConfigError
from nitro_actor.function import Function
from nitro_actor.logs import log
from nitro_actor.make_env import make_env, with_kwargs
from nitro_actor.store import Store


def build() -> Function:
    """Build the handler from this process's settings.

    Raises:
        EnvironmentConfigError, ValueError: the settings are wrong; awslambdaric reports this as an error of
            the init phase.
    """
    began = time.perf_counter()
    config = EnvironmentConfig.from_json(os.environ.get("NITRO_ENVIRONMENT", ""))
    url = os.environ.get("NITRO_REDIS_URL")
    token = os.environ.get("NITRO_TOKEN_SHA256")
    try:
        environment = make_env(config)
    except EnvironmentConfigError as error:
        log_uncut(error, level="error")
        raise
    function = Function(Actor(environment, with_kwargs(config)), Store(url) if url else None, token)
    log("ready", environment=config.id, seconds=time.perf_counter() - began)
    return function


handle = build()
