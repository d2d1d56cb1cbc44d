"""The program of `helm test`."""

import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CHECK = Path(__file__).parents[3] / "charts/nitro/files/check.py"


def test_it_asks_again_until_the_operators_address_is_routed() -> None:
    answers = iter([503, 503])

    class Late(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(next(answers, 200))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Late) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        about = {"OPERATOR_HEALTH": f"http://127.0.0.1:{server.server_address[1]}/healthz", "NAMESPACE": "x"}
        done = subprocess.run(
            [sys.executable, str(CHECK)], env=os.environ | about, capture_output=True, text=True, timeout=120
        )
        server.shutdown()
    # There is no API server here, so the program fails after that.
    assert "operator: 200" in done.stdout, done.stderr


def test_it_says_what_may_be_where_no_operator_is_ready() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        about = {"OPERATOR_HEALTH": f"http://127.0.0.1:{nobody.getsockname()[1]}/healthz", "NAMESPACE": "x"}
        about |= {"PATIENCE_SECONDS": "0"}
        proxy = {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
        done = subprocess.run(
            [sys.executable, str(CHECK)],
            env=os.environ | about | proxy,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 1
    assert "wait for the Lease of another release: kubectl -n x logs" in done.stderr
