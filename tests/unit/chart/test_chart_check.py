"""The program of `helm test`."""

import os
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
