"""A real kube-apiserver with its own etcd for one test session, on free ports, with certificates of its own.

There is no controller and no kubelet: objects are validated, stored and watched, but no pod ever runs.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import urllib3
import yaml

from ports import free_ports

START_SECONDS = 400
ATTEMPTS = 3
CRD_FILE = Path(__file__).parents[2] / "crds" / "nitrotrainingjobs.yaml"


class ApiServer:
    """Use as a context manager. `kubeconfig` is an administrator's; `url`, `token` and `ca` are what it
    holds. `flags` are more arguments of kube-apiserver."""

    def __init__(self, assets: Path, *flags: str) -> None:
        self.assets = assets
        self._flags = flags
        self.folder = Path(tempfile.mkdtemp(prefix="nitro-apiserver-"))
        self.kubeconfig = self.folder / "kubeconfig"
        self.ca = self.folder / "ca.crt"
        self.token = os.urandom(16).hex()
        self.url = ""
        self._processes: list[subprocess.Popen[bytes]] = []
        self._http: urllib3.PoolManager | None = None

    def __enter__(self) -> Self:
        try:
            _make_certificates(self.folder)
            (self.folder / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._start()
                    break
                except PortTaken:
                    self._stop()
                    if attempt == ATTEMPTS:
                        raise
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop both processes and remove their data."""
        self._stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def kubectl(self, *arguments: str, input: str | None = None, check: bool = True) -> str:
        """Run kubectl as the administrator and return what it printed. Raises KubectlError when it fails and
        `check`; otherwise a failure's messages are returned."""
        done = subprocess.run(
            [self.assets / "kubectl", *arguments],
            input=input,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)},
        )
        if done.returncode and check:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stderr.strip() if done.returncode else done.stdout

    def get(self, *arguments: str) -> Any:
        """What `kubectl get ... -o json` returns, parsed."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """The API's own answer, parsed, or None where there is no such object; a PATCH is a merge patch.

        For what tests do again and again: a kubectl is a process, and takes a fifth of a second of CPU.

        Raises:
            KubectlError: the API server refused; the message is what it said.
        """
        if self._http is None:
            headers = {"Authorization": f"Bearer {self.token}"}
            self._http = urllib3.PoolManager(ca_certs=str(self.ca), headers=headers, timeout=120.0)
        content = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        answer = self._http.request(
            method, f"{self.url}{path}", json=body, headers={**self._http.headers, **content}
        )
        if answer.status == 404 and method in ("GET", "DELETE"):
            return None
        if answer.status >= 400:
            raise KubectlError(f"{method} {path}: {answer.status} {answer.data.decode()}")
        return answer.json()

    def apply_crd(self) -> None:
        """Install the NitroTrainingJob kind, or bring it up to date, and wait until it is served."""
        self.define(CRD_FILE)
        # `kubectl wait` fails while the definition has no conditions at all, and does not say what is served.
        deadline = time.monotonic() + 120
        while answer := self.kubectl("get", "nitrotrainingjobs", "-A", "-o", "name", check=False):
            if time.monotonic() > deadline:
                raise KubectlError(answer)
            time.sleep(0.1)

    def kubeconfig_of(self, account: str, namespace: str) -> Path:
        """The credentials of a service account, which is made if there is none, and may do nothing yet."""
        made = self.kubectl("-n", namespace, "create", "serviceaccount", account, check=False)
        assert "created" in made or "already exists" in made, made
        token = self.kubectl("-n", namespace, "create", "token", account, "--duration=24h").strip()
        file = self.folder / f"kubeconfig-{namespace}-{account}"
        file.write_text(_kubeconfig(self.url, self.ca, token))
        return file

    def define(self, definition: Path) -> None:
        """Apply a definition of the NitroTrainingJob kind. It may not be served yet."""
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(definition))

    @contextmanager
    def changed_schema(self, change: Callable[[Any], None]) -> Iterator[None]:
        """The definition with another schema, for a time. `change` edits its openAPIV3Schema."""
        changed = yaml.safe_load(CRD_FILE.read_text())
        change(changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        file = self.folder / "changed-definition.json"
        file.write_text(json.dumps(changed))
        self.define(file)
        try:
            yield
        finally:
            self.define(CRD_FILE)

    def _start(self) -> None:
        client, peer, secure = free_ports(3)
        etcd = f"http://127.0.0.1:{client}"
        self.url = f"https://127.0.0.1:{secure}"
        shutil.rmtree(self.folder / "etcd-data", ignore_errors=True)
        self._run(
            "etcd",
            f"--data-dir={self.folder}/etcd-data",
            "--unsafe-no-fsync",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            "--log-level=warn",
        )
        self._run(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={secure}",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder}/tokens.csv",
            f"--tls-cert-file={self.folder}/server.crt",
            f"--tls-private-key-file={self.folder}/server.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder}/accounts.pub",
            f"--service-account-signing-key-file={self.folder}/accounts.key",
            # Nobody makes the namespaces' default accounts here, and pods would be refused without.
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
            *self._flags,
        )
        self._await_ready()
        self.kubeconfig.write_text(_kubeconfig(self.url, self.ca, self.token))

    def _run(self, program: str, *arguments: str) -> None:
        with (self.folder / f"{program}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [self.assets / program, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # a Ctrl-C is the tests', which stop the processes themselves
                    preexec_fn=_die_with_parent,
                )
            )

    def _await_ready(self) -> None:
        request = urllib.request.Request(
            f"{self.url}/readyz", headers={"Authorization": f"Bearer {self.token}"}
        )
        context = ssl.create_default_context(cafile=self.ca)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(request, timeout=5, context=context):
                    return
            except (OSError, urllib.error.URLError) as error:
                ended = [process for process in self._processes if process.poll() is not None]
                if ended or time.monotonic() > deadline:
                    raise self._failure(str(error)) from None
            time.sleep(0.2)

    def _failure(self, reason: str) -> Exception:
        logs = {path.stem: path.read_text(errors="replace")[-3000:] for path in self.folder.glob("*.log")}
        text = "\n".join(f"--- {name}\n{log}" for name, log in logs.items())
        taken = "address already in use" in text
        return (PortTaken if taken else RuntimeError)(f"the API server did not start ({reason})\n{text}")

    def _stop(self) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()


class KubectlError(RuntimeError):
    """kubectl failed; the message is what it said."""


class PortTaken(RuntimeError):  # noqa: N818
    """Somebody took a port between its choice and its use."""


def _die_with_parent() -> None:
    """A test process that is killed takes the servers with it. Linux only; elsewhere they stay until
    killed."""
    if sys.platform == "linux":
        parent_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGKILL)


def _make_certificates(folder: Path) -> None:
    """An authority, a server certificate for 127.0.0.1, and the key that signs service accounts' tokens."""
    (folder / "ca.ext").write_text(
        "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash\n"
    )
    (folder / "server.ext").write_text(
        "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\nkeyUsage=critical,digitalSignature\n"
        "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
    )
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    commands = (
        ("req", *key, "-subj", "/CN=nitro-tests", "-keyout", "ca.key", "-out", "ca.csr"),
        ("x509", "-req", "-in", "ca.csr", "-signkey", "ca.key", "-days", "30", "-extfile", "ca.ext",
         "-out", "ca.crt"),
        ("req", *key, "-subj", "/CN=kube-apiserver", "-keyout", "server.key", "-out", "server.csr"),
        ("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
         "-days", "30", "-extfile", "server.ext", "-out", "server.crt"),
        ("genrsa", "-out", "accounts.key", "2048"),
        ("rsa", "-in", "accounts.key", "-pubout", "-out", "accounts.pub"),
    )  # fmt: skip
    for command in commands:
        done = subprocess.run(["openssl", *command], cwd=folder, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"openssl {command[0]} failed: {done.stderr.strip()}")


def _kubeconfig(url: str, ca: Path, token: str) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin"}}],
            "clusters": [{"name": "tests", "cluster": {"server": url, "certificate-authority": str(ca)}}],
            "users": [{"name": "admin", "user": {"token": token}}],
        }
    )
