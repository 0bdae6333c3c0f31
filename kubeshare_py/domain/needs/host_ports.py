"""Ports of the node that a pod's containers take.

Rules: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#ports
"""

from dataclasses import dataclass

#: All addresses of the node.
ANY_ADDRESS = "0.0.0.0"


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port of one protocol (TCP, UDP, SCTP), at one address of the node or at all of them."""

    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def conflicts(self, other: "HostPort") -> bool:
        """Whether two pods cannot have them on one node."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or ANY_ADDRESS in (self.address, other.address)
