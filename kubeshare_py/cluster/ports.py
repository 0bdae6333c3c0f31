"""The pod-manager ports of one node: 511 ports in round robin, as in KubeShare.

A freed port is used again only after the cursor has come round, so that a client of the old pod
does not reach the new pod's manager. Ports are 50051…50561 (KubeShare 2.0, `pkg/scheduler/pod.go`).
"""

from dataclasses import dataclass, field

FIRST_PORT = 50051
POOL_SIZE = 511


@dataclass(slots=True)
class PortPool:
    """The taken ports of a node, and where the next search starts.

    Bit b of `taken` is port 50051 + b, and `cursor` is a bit's number.
    """

    taken: int = 0
    cursor: int = 0
    #: Ports that several pods hold, as only a forged annotation can cause: how many extra pods.
    shared: dict[int, int] = field(default_factory=dict)
    #: Ports outside of the pool, which no scheduler gives: how many pods hold each.
    _outside: dict[int, int] = field(default_factory=dict)

    def next_free(self) -> int | None:
        """The port of the next placement; None if all are taken."""
        for start, limit in ((self.cursor, POOL_SIZE), (0, self.cursor)):
            free = ~self.taken >> start & ((1 << (limit - start)) - 1)
            if free:
                return FIRST_PORT + start + (free & -free).bit_length() - 1
        return None

    def take(self, port: int) -> bool:
        """Count one more pod on a port; whether it was free."""
        bit = port - FIRST_PORT
        if not 0 <= bit < POOL_SIZE:
            self._outside[port] = self._outside.get(port, 0) + 1
            was_free = self._outside[port] == 1
        else:
            was_free = not self.taken >> bit & 1
            self.taken |= 1 << bit
            self.cursor = (bit + 1) % POOL_SIZE
        if not was_free:
            self.shared[port] = self.shared.get(port, 0) + 1
        return was_free

    def give_back(self, port: int) -> None:
        """Count one pod fewer on a port."""
        bit = port - FIRST_PORT
        if not 0 <= bit < POOL_SIZE:
            self._outside[port] -= 1
            if not self._outside[port]:
                del self._outside[port]
        if port in self.shared:
            self.shared[port] -= 1
            if not self.shared[port]:
                del self.shared[port]
        elif 0 <= bit < POOL_SIZE:
            self.taken &= ~(1 << bit)

    def take_back(self, port: int) -> None:
        """Free the port that was taken last, as if it had never been taken."""
        self.give_back(port)
        bit = port - FIRST_PORT
        if 0 <= bit < POOL_SIZE:
            self.cursor = bit
