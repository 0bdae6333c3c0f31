"""What this process is called: its installed version, its node, and the address of that.

Apart, because commands that print their version must not import a server's packages.
"""

import os
import socket
from importlib.metadata import PackageNotFoundError, version

from kubeshare_py.domain.identity import NodeName

_DISTRIBUTIONS = ("kubeshare-py", "kubectl-kubeshare")


def own_version() -> str:
    """The installed version; "unknown" for files that were copied without their metadata."""
    for name in _DISTRIBUTIONS:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"


def own_node() -> NodeName:
    """$NODE_NAME, which a pod gets from spec.nodeName by the downward API; or the host's name."""
    return NodeName(os.environ.get("NODE_NAME") or socket.gethostname())


def own_address() -> str:
    """$HOST_IP, which a pod gets from status.hostIP by the downward API; "" without it."""
    return os.environ.get("HOST_IP", "")
