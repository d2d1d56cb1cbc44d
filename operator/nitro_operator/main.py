"""The handlers that kopf calls: sign in, start and stop. The controller has watches and probes of its own.

docs/development.md says what kopf carries, and shows why it does not watch.
"""

from typing import Any

import kopf

from nitro_operator.controller import Controller

ONE_HOUR_OF_BACKOFFS = (1, 1, 2, 3, 5, 8, 13, 21, 34) + (60,) * 60
"""Long, because kopf ends the process when all tries have failed, and an API server may restart meanwhile."""


@kopf.on.login()
def login(**kwargs: Any) -> Any:
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)


# A controller that fails to start has taken ports and a Lease, so it cannot be started twice in a process.
@kopf.on.startup(errors=kopf.ErrorsMode.PERMANENT)
async def start(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    settings.scanning.disabled = True  # kopf would watch all namespaces and CRDs, which no handler needs
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.networking.error_backoffs = ONE_HOUR_OF_BACKOFFS
    settings.process.ultimate_exiting_timeout = 20
    memo.controller = await Controller.start(memo.config)


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: Any) -> None:
    await memo.controller.stop()
