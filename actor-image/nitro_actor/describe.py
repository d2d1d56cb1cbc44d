"""What an environment is like: `python -m nitro_actor.describe` builds it as an actor does, and ends.

It prints one line of JSON: `{"environment": EnvironmentSpec}`, or `{"error": ..., "installed": ...}`. Its
settings come from the variable NITRO_ENVIRONMENT. What the environment prints goes to standard error.
"""

import json
import os
import sys

import nitro_actor.startup  # noqa: F401 - before numpy loads
from nitro_actor.config import EnvironmentConfig, EnvironmentConfigError, NotInstalled
from nitro_actor.make_env import make_env


def main() -> int:
    """Describe the environment. Returns the exit code: 1 if it cannot be used."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        environment = make_env(EnvironmentConfig.from_json(os.environ.get("NITRO_ENVIRONMENT", "")))
    except EnvironmentConfigError as error:
        print(
            json.dumps({"error": str(error), "installed": not isinstance(error, NotInstalled)}),
            file=answers,
            flush=True,
        )
        return 1
    print(json.dumps({"environment": environment.spec.to_json()}), file=answers, flush=True)
    environment.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
