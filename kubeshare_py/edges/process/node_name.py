"""The node of this process."""

import os
import socket

from kubeshare_py.domain.identity import NodeName


def own_node() -> NodeName:
    """$NODE_NAME, which a pod gets from spec.nodeName by the downward API; or the host's name."""
    return NodeName(os.environ.get("NODE_NAME") or socket.gethostname())
