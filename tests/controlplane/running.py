"""A real control plane on this machine: etcd, kube-apiserver, kube-controller-manager.

Nodes, kubelets and GPU collectors are simulated by others. Flags:
https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/
"""

import json
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any

from tenacity import retry, retry_if_exception, stop_after_attempt

from kubeshare_py.domain.values import replace
from kubeshare_py.embedded_cluster.serving.server import ADMIN, SCHEDULER
from tests.controlplane.processes import Process, process
from tests.controlplane.secrets_of_cluster import CONTROLLERS, FRONT_PROXY, Secrets, make_secrets
from tests.controlplane.shipped import IDENTITY, shipped, token_policies, write

#: Stories say themselves which node is lost, and admission's not-ready taint is this
#: controller's to take away; and no kubelet here mounts the ConfigMap of root certificates.
_CONTROLLERS = "*,-node-lifecycle-controller,-root-ca-certificate-publisher-controller"
_START_S = 60.0
#: Below those that the system gives to outgoing connections while a server starts:
#: https://www.kernel.org/doc/html/latest/networking/ip-sysctl.html (ip_local_port_range)
_PORTS, _TRIED = range(20_000, 32_000), 200
_ASK_S = 5.0
#: kubectl waits until what it deletes is gone.
_KUBECTL_S = 120.0


def _is_conflict(error: BaseException) -> bool:
    """Whether a write was refused because the object was changed after kubectl had read it."""
    return isinstance(error, subprocess.CalledProcessError) and "(Conflict)" in error.stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """What runs. `folder` has the logs and secrets; `server` is kube-apiserver's process."""

    url: str
    etcd_url: str
    server: Process
    secrets: Secrets
    folder: Path
    kubeconfig: Path
    kubectl: Path

    def has(self, path: str) -> bool:
        """Whether an administrator's GET is answered with 200."""
        token = self.secrets.tokens[ADMIN]
        request = urllib.request.Request(
            self.url + path, headers={"Authorization": f"Bearer {token}"}
        )
        context = ssl.create_default_context(cafile=str(self.secrets.certificates.ca_file))
        try:
            with urllib.request.urlopen(request, timeout=_ASK_S, context=context):
                return True
        except OSError:
            return False

    def create(self, manifest: Path) -> None:
        """Create what a file contains, as kubectl does it."""
        self._kubectl("create", "-f", str(manifest))

    @retry(retry=retry_if_exception(_is_conflict), stop=stop_after_attempt(10), reraise=True)
    def update(self, manifest: Path) -> None:
        """Replace what is there by what a file contains, as kubectl does it.

        Again if it was changed between kubectl's reading and writing: the API server itself writes
        the statuses of policies.
        """
        self._kubectl("replace", "-f", str(manifest))

    def delete(self, manifest: Path) -> None:
        """Delete it again.

        An aggregated API that stories left behind goes first: while its server does not answer, no
        namespace can be deleted.
        """
        names = [one["metadata"]["name"] for one in shipped("APIService")]
        self._kubectl("delete", "apiservice", *names, "--ignore-not-found")
        self._kubectl("delete", "-f", str(manifest))

    def token_of(self, namespace: str, account: str) -> str:
        """A token of this ServiceAccount, for a day."""
        asked = ("create", "token", account, "--duration=24h")
        return self._kubectl(f"--namespace={namespace}", *asked).strip()

    def with_scheduler(self) -> "ControlPlane":
        """The same once the scheduler's account, roles and their limits are there, as shipped."""
        objects = [*shipped(*IDENTITY), *token_policies()]
        self.create(write(objects, self.folder / "identity.yaml"))
        *_, namespace, account = SCHEDULER.split(":")
        tokens = {**self.secrets.tokens, SCHEDULER: self.token_of(namespace, account)}
        return replace(self, secrets=replace(self.secrets, tokens=tokens))

    def wait_until_ready(self) -> None:
        """Wait for the API server, also after it was started again. Raises processes.NotReady."""
        self.server.wait_until(lambda: self.has("/readyz"), _START_S)

    def start_server_again(self) -> None:
        """End the API server and start it, for what it remembers of policies that are gone.

        Seen on 1.36.3: when a policy with parameters is created again under its name, they stay as
        they were when it was deleted, until the server is started anew.
        """
        self.server.kill()
        self.server.start_again()
        self.wait_until_ready()

    def compact(self) -> None:
        """Let etcd forget all but the present; the API server goes on with what it remembers.

        https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/
        """
        present = self._etcd("range", {"key": "AA==", "limit": 1})["header"]["revision"]
        try:
            self._etcd("compaction", {"revision": present, "physical": True})
        except urllib.error.HTTPError as error:
            # Nothing was written since the last time.
            if b"has been compacted" not in error.read():
                raise

    def _etcd(self, call: str, body: dict[str, Any]) -> dict[str, Any]:
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"{self.etcd_url}/v3/kv/{call}", data)
        with urllib.request.urlopen(request, timeout=_ASK_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def _kubectl(self, *arguments: str) -> str:
        command = [str(self.kubectl), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_KUBECTL_S, check=False
        )
        sys.stderr.write(done.stderr)
        if done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
        return done.stdout


@contextmanager
def control_plane(
    binaries: Path,
    folder: Path,
    *,
    controllers: bool = True,
    identity: bool = True,
    not_admitted_by: Sequence[str] = (),
) -> Iterator[ControlPlane]:
    """Run it while entered, ready for requests. Raises processes.NotReady.

    Without `controllers` nobody makes the ServiceAccounts that pods need; with `identity` the
    scheduler has its account, as it is shipped. `not_admitted_by` are admission plugins that are
    switched off.
    """
    secrets = make_secrets(folder / "secrets")
    etcd_port, peer_port, port = free_ports(3)
    url = f"https://127.0.0.1:{port}"
    with ExitStack() as stack:

        def start(name: str, flags: list[str | Path]) -> Process:
            return stack.enter_context(process([binaries / name, *flags], folder / f"{name}.log"))

        try:
            start("etcd", _etcd_flags(folder, etcd_port, peer_port))
            plane = ControlPlane(
                url=url,
                etcd_url=f"http://127.0.0.1:{etcd_port}",
                server=start(
                    "kube-apiserver",
                    server_flags(secrets, folder, etcd_port, port, not_admitted_by),
                ),
                secrets=secrets,
                folder=folder,
                kubeconfig=secrets.write_kubeconfig(folder / "admin.kubeconfig", url, ADMIN),
                kubectl=binaries / "kubectl",
            )
            plane.wait_until_ready()
            if identity:
                plane = plane.with_scheduler()
            if controllers:
                kubeconfig = secrets.write_kubeconfig(
                    folder / "controllers.kubeconfig", url, CONTROLLERS
                )
                flags = _controller_flags(secrets, folder, kubeconfig)
                running = start("kube-controller-manager", flags)
                # Without this account, pods of the namespace are refused.
                account = "/api/v1/namespaces/default/serviceaccounts/default"
                running.wait_until(lambda: plane.has(account), _START_S)
            yield plane
        except BaseException:
            print(f"logs of the control plane are in {folder}", file=sys.stderr)
            raise


def _etcd_flags(folder: Path, port: int, peer_port: int) -> list[str | Path]:
    url, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        f"--data-dir={folder / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
    ]


def server_flags(
    secrets: Secrets,
    folder: Path,
    etcd_port: int,
    port: int,
    not_admitted_by: Sequence[str] = (),
) -> list[str | Path]:
    """Of a kube-apiserver on this etcd, which serves `port` of the loopback interface."""
    certificates = secrets.certificates
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        # It would refuse to publish a loopback address as its own.
        "--advertise-address=192.0.2.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}",
        f"--tls-cert-file={certificates.certificate_file}",
        f"--tls-private-key-file={certificates.key_file}",
        f"--token-auth-file={secrets.token_file}",
        f"--client-ca-file={secrets.clients_file}",
        # The aggregation layer, as kubeadm sets it up.
        f"--requestheader-client-ca-file={secrets.proxies_file}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={secrets.proxy_file}",
        f"--proxy-client-key-file={secrets.proxy_file}",
        # Kubelets may what the Node authorizer lets them, on their own node.
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--disable-admission-plugins={','.join(('TaintNodesByCondition', *not_admitted_by))}",
        # As kubeadm and others have it: it is for admission to say who may.
        "--allow-privileged",
        f"--service-account-key-file={secrets.account_public_key}",
        f"--service-account-signing-key-file={secrets.account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/24",
    ]


def _controller_flags(secrets: Secrets, folder: Path, kubeconfig: Path) -> list[str | Path]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--controllers={_CONTROLLERS}",
        # Claims that wait for a volume are looked at this often; the default is 15 s.
        "--pvclaimbinder-sync-period=1s",
        # Each controller has its own rights, as in a cluster.
        "--use-service-account-credentials",
        f"--service-account-private-key-file={secrets.account_key}",
        f"--cert-dir={folder / 'certificates'}",
    ]


def free_ports(count: int) -> list[int]:
    """Choose ports that are free now; connections that others open are given none of them."""
    found: list[int] = []
    # Not of the module's generator, which tests in two processes may have seeded alike.
    for port in SystemRandom().sample(_PORTS, _TRIED):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"{_TRIED} ports below {_PORTS.stop} were tried, and fewer than {count} are free")
