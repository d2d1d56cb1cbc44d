"""Latency of `nitro serve`: one client, one request after the other on one connection. Prints a table.

    python tests/benchmarks/bench_serve.py [--requests 2000]

The policies are untrained ones of Hopper (2 x 64) and SpaceInvaders, in processes of their own. The last
column is the policy itself, called as a library.
"""

import argparse
import http.client
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "support"))

import numpy as np

import nitro_learner as nitro
from train_support import job, start
from untrained_runs import untrained

POLICIES = {
    "Hopper": job(algorithm={"preset": "tuned"}, network={"hiddenSizes": [64, 64]}),
    "SpaceInvaders": job(
        environment={"id": "ALE/SpaceInvaders-v5", "rolloutLength": 32, "envsPerActor": 2},
        network={"hiddenSizes": [512]},
        algorithm={"preset": "tuned"},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=2000)
    count: int = parser.parse_args().requests
    print("| policy | start to first answer | p50 | p99 | as a library, p50 |")
    print("|---|---:|---:|---:|---:|")
    for name, source in POLICIES.items():
        with tempfile.TemporaryDirectory() as folder:
            untrained(source, Path(folder))
            policy = nitro.load(folder)
            one = policy.of("agent").observation
            row = np.zeros(one["shape"], one["dtype"])
            body = json.dumps({"observation": row.tolist()})
            begin = time.perf_counter()
            process = start("serve", folder, "--port", "0")
            assert process.stdout is not None
            host, _, port = process.stdout.readline().split()[-1].removeprefix("http://").partition(":")
            connection = http.client.HTTPConnection(host, int(port), timeout=60)
            times, own = [], []
            for index in range(count):
                asked = time.perf_counter()
                connection.request("POST", "/v1/act", body)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200
                times.append(time.perf_counter() - asked)
                if index == 0:
                    first = time.perf_counter() - begin
                asked = time.perf_counter()
                policy.act(row)
                own.append(time.perf_counter() - asked)
            process.terminate()
            process.communicate(timeout=60)
        p50, p99 = (1e3 * float(np.quantile(times, q)) for q in (0.5, 0.99))
        print(
            f"| {name} | {first:.2f} s | {p50:.2f} ms | {p99:.2f} ms | {1e3 * np.median(own):.3f} ms |",
            flush=True,
        )


if __name__ == "__main__":
    main()
