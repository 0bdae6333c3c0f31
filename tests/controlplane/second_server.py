"""One more kube-apiserver on the same etcd, with flags of its own, while a test needs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from kubeshare_py.domain.values import replace
from kubeshare_py.embedded_cluster.serving.server import ADMIN
from tests.controlplane.processes import process
from tests.controlplane.running import ControlPlane, free_ports, server_flags


@contextmanager
def second_server(plane: ControlPlane, folder: Path, *flags: str) -> Iterator[ControlPlane]:
    """Run it while entered, ready for requests; what the first one has stored is there too.

    Raises processes.NotReady.
    """
    (port,) = free_ports(1)
    url = f"https://127.0.0.1:{port}"
    etcd_port = urlsplit(plane.etcd_url).port
    assert etcd_port is not None
    command: list[str | Path] = [
        plane.kubectl.with_name("kube-apiserver"),
        *server_flags(plane.secrets, folder, etcd_port, port),
        *flags,
    ]
    with process(command, folder / "kube-apiserver.log") as running:
        kubeconfig = plane.secrets.write_kubeconfig(folder / "admin.kubeconfig", url, ADMIN)
        second = replace(plane, url=url, server=running, folder=folder, kubeconfig=kubeconfig)
        second.wait_until_ready()
        yield second
