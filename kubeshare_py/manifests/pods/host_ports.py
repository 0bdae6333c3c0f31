"""Ports of the node that a pod takes while it runs: those of containers and sidecars.

Other init containers have ended before. The API server sets `hostPort` of pods on the host's
network (GetHostPorts in pkg/scheduler/util/utils.go of github.com/kubernetes/kubernetes).
"""

from collections.abc import Iterator

from kubeshare_py.domain.needs.host_ports import ANY_ADDRESS, HostPort
from kubeshare_py.manifests.pods.pod_fields import Container, PodSpec


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The ports, sorted, each once."""
    found: dict[HostPort, None] = {}
    for container in spec.containers or ():
        if container.ports:
            found.update(dict.fromkeys(_of(container)))
    for container in spec.init_containers or ():
        if container.ports and container.restart_policy == "Always":
            found.update(dict.fromkeys(_of(container)))
    return tuple(sorted(found)) if found else ()


def _of(container: Container) -> Iterator[HostPort]:
    for port in container.ports or ():
        if port.host_port > 0:
            yield HostPort(port.host_port, port.protocol or "TCP", port.host_ip or ANY_ADDRESS)
