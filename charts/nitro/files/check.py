"""`helm test`: the operator answers, and the API server accepts a right job and refuses a wrong one."""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
NAMESPACE = os.environ["NAMESPACE"]
PATIENCE_SECONDS = float(os.environ.get("PATIENCE_SECONDS", "60"))
JOBS = f"https://kubernetes.default.svc/apis/nitro.dev/v1alpha1/namespaces/{NAMESPACE}/nitrotrainingjobs"


NO_PROXY = urllib.request.ProxyHandler({})
"""Both servers are in the cluster, for which the proxy of an environment is not meant."""


def health() -> int:
    """Status code of the operator's answer. A node routes a new Service a moment after its pod is ready."""
    url, end = os.environ["OPERATOR_HEALTH"], time.monotonic() + PATIENCE_SECONDS
    direct = urllib.request.build_opener(NO_PROXY)
    while True:
        try:
            with direct.open(url, timeout=10) as answer:
                return int(answer.status)
        except OSError as error:
            if time.monotonic() > end:
                sys.exit(
                    f"no operator is ready at {url} ({error}). It may still start, or wait for the Lease of "
                    f"another release: kubectl -n {NAMESPACE} logs -l app.kubernetes.io/component=operator"
                )
            time.sleep(0.5)


def dry_run(spec: dict[str, object]) -> tuple[int, str]:
    """Status code and message of the API server's answer to creating a job with `spec`; nothing is stored."""
    job = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"generateName": "check-"},
    }
    request = urllib.request.Request(
        f"{JOBS}?dryRun=All&fieldValidation=Strict",
        data=json.dumps({**job, "spec": spec}).encode(),
        headers={
            "Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}",
            "Content-Type": "application/json",
        },
    )
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    direct = urllib.request.build_opener(NO_PROXY, urllib.request.HTTPSHandler(context=trust))
    try:
        with direct.open(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def main() -> None:
    print("operator:", health(), flush=True)
    right: dict[str, object] = {"environment": {"id": "Hopper-v5"}}
    code, message = dry_run(right)
    print("a right job:", code)
    if code != 201:
        sys.exit(f"the API server refused a right job: {message}")
    code, message = dry_run({**right, "scaling": {"minActors": 9, "maxActors": 3}})
    print("a wrong job:", code)
    if code != 422 or "minActors" not in message:
        sys.exit(
            f"the API server should have refused minActors above maxActors, but answered {code}: {message}"
        )


main()
