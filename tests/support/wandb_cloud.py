"""A stand-in for the servers of Weights & Biases, which cannot run here: the few answers that W&B's own
client needs, and a record of the runs that it uploads.
"""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class UploadedRun:
    """What was uploaded of a run."""

    config: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    artifacts: list[str] = field(default_factory=list)
    exit_code: int | None = None


class Cloud:
    """The servers: `variables` lead the client there, `runs` are the uploaded ones by id,
    `requests` counts all that came."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.variables = {"WANDB_BASE_URL": self.url, "WANDB_API_KEY": "0" * 40}
        self.runs: dict[str, UploadedRun] = {}
        self.requests = 0

    def graphql(self, name: str, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        """The data that answers a query."""
        owner = {"id": "p", "name": "nitro", "entity": {"id": "e", "name": "me"}}
        if name == "UpsertBucket":
            run = self.runs.setdefault(variables["name"], UploadedRun())
            run.config |= json.loads(variables["config"] or "{}")
            run.tags = variables["tags"] or run.tags
            bucket = self._bucket(variables["name"], run) | {"project": owner}
            return {"upsertBucket": {"bucket": bucket, "inserted": not run.history}}
        if name == "RunResumeStatus":
            found = self.runs.get(variables["name"])
            bucket = self._bucket(variables["name"], found) if found else None
            return {"model": owner | {"bucket": bucket} if bucket else None}
        if name == "CreateRunFiles":
            files = [{"name": file, "uploadUrl": f"{self.url}/file"} for file in variables["files"]]
            return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": files}}
        if name == "CreateArtifact":
            wanted = variables["input"]
            self.runs[wanted["runName"]].artifacts.append(wanted["artifactCollectionName"])
            stored = {"id": "a", "state": "COMMITTED", "artifactSequence": {"latestArtifact": None}}
            return {"createArtifact": {"artifact": stored}}
        if name == "Viewer":
            user = {"id": "u", "entity": "me", "username": "me", "email": "", "flags": "{}"}
            return {"viewer": user | {"teams": {"edges": []}}}
        return {"project": {"artifact": None}} if "ArtifactType" in query else {}

    def stream(self, run: UploadedRun, said: dict[str, Any]) -> None:
        """Take in a part of a run's files."""
        files = said.get("files") or {}
        if rows := files.get("wandb-history.jsonl"):
            run.history[rows["offset"] :] = map(json.loads, rows["content"])
        if summary := files.get("wandb-summary.json"):
            run.summary = json.loads(summary["content"][-1])
        if said.get("complete"):
            run.exit_code = said["exitcode"]

    @staticmethod
    def _bucket(name: str, run: UploadedRun) -> dict[str, Any]:
        tail = [json.dumps(row) for row in run.history[-1:]]
        return {
            "id": "r",
            "name": name,
            "displayName": name,
            "description": "",
            "config": json.dumps(run.config),
            "sweepName": None,
            "summaryMetrics": json.dumps(run.summary),
            "logLineCount": 0,
            "historyLineCount": len(run.history),
            "eventsLineCount": 0,
            "historyTail": json.dumps(tail),
            "eventsTail": "[]",
            "tags": run.tags,
            "notes": None,
            "wandbConfig": '{"t": 1}',
        }


@contextmanager
def cloud() -> Iterator[Cloud]:
    """The servers, while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            made.requests += 1
            answer: dict[str, Any] = {}
            if self.path == "/graphql":
                asked = json.loads(body)
                name, variables = asked.get("operationName") or "", asked.get("variables") or {}
                answer = {"data": made.graphql(name, asked["query"], variables)}
            elif self.path.endswith("/file_stream"):
                made.stream(made.runs[self.path.split("/")[-2]], json.loads(body))
            text = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = do_POST  # noqa: N815 (names of the base class)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Cloud(server.server_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
