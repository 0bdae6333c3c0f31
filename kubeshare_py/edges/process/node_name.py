"""The node of this process, and its address."""

import os
import socket

from kubeshare_py.domain.identity import NodeName


def own_node() -> NodeName:
    """$NODE_NAME, which a pod gets from spec.nodeName by the downward API; or the host's name."""
    return NodeName(os.environ.get("NODE_NAME") or socket.gethostname())


def own_address() -> str:
    """$HOST_IP, which a pod gets from status.hostIP by the downward API; "" without it."""
    return os.environ.get("HOST_IP", "")
