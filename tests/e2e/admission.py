"""A webhook that changes pods as other people's clusters do; its program runs in the operator's image."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import Cluster, Object, is_ready

MARK = "nitro-e2e/admission"
"""Label of the namespaces whose new pods are changed. Its value is the webhook's namespace."""
NAME, PORT = "admission", 8443
_PROGRAM = """
import base64, http.server, json, ssl

{change}

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        patch = base64.b64encode(json.dumps(change(asked["object"])).encode()).decode()
        answer = {{"uid": asked["uid"], "allowed": True, "patchType": "JSONPatch", "patch": patch}}
        review = {{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}}
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(review).encode())

server = http.server.ThreadingHTTPServer(("", {port}), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@contextmanager
def webhook(cluster: Cluster, namespace: str, change: str, folder: Path) -> Iterator[None]:
    """Change the pods of each namespace that has the label MARK with this namespace as value.

    Args:
        cluster: the cluster.
        namespace: where the webhook runs.
        change: Python source of `change(pod)`, which returns a JSON patch.
        folder: an empty one, for the certificate.
    """
    host = f"{NAME}.{namespace}.svc"
    made = ("-keyout", "tls.key", "-out", "tls.crt", "-days", "2", "-nodes", "-newkey", "rsa:2048")
    command = [
        "openssl",
        "req",
        "-x509",
        *made,
        "-subj",
        f"/CN={NAME}",
        "-addext",
        f"subjectAltName=DNS:{host}",
    ]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    files = {name: (folder / name).read_text() for name in ("tls.crt", "tls.key")}
    cluster.create(_object("v1", "Secret", NAME, stringData=files), namespace)
    port = {"port": 443, "targetPort": PORT}
    cluster.create(
        _object("v1", "Service", NAME, spec={"selector": {"app": NAME}, "ports": [port]}), namespace
    )
    cluster.create(_pod(cluster, _PROGRAM.format(change=change, port=PORT)), namespace)
    cluster.until(
        cluster.kind("v1", "Pod"),
        lambda pods: any(map(is_ready, pods)),
        namespace=namespace,
        what="the webhook",
        name=NAME,
    )
    kind = ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
    trust = base64.b64encode(files["tls.crt"].encode()).decode()
    hook = {
        "name": "pods.nitro-e2e.test",
        "clientConfig": {"service": {"name": NAME, "namespace": namespace}, "caBundle": trust},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        ],
        "namespaceSelector": {"matchLabels": {MARK: namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    cluster.create(_object(*kind, namespace, webhooks=[hook]))
    try:
        yield
    finally:
        cluster.kind(*kind).delete(name=namespace)


@contextmanager
def marked(cluster: Cluster, namespace: str, value: str) -> Iterator[None]:
    """A namespace with the label MARK."""
    cluster.core.patch_namespace(namespace, {"metadata": {"labels": {MARK: value}}})
    try:
        yield
    finally:
        cluster.core.patch_namespace(namespace, {"metadata": {"labels": {MARK: None}}})


def _object(api_version: str, kind: str, name: str, **rest: object) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **rest}


def _pod(cluster: Cluster, program: str) -> Object:
    container = {
        "name": NAME,
        "image": cluster.images["operator"],
        "command": ["python", "-c", program],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "tls", "mountPath": "/tls", "readOnly": True}],
    }
    spec = {
        "containers": [container],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "tls", "secret": {"secretName": NAME}}],
    }
    found = _object("v1", "Pod", NAME, spec=spec)
    found["metadata"]["labels"] = {"app": NAME}
    return found
