"""A client that floods one port with one kind of request, as a process of its own.

    python -m tests.attacks.port_flood KIND PORT

It goes on until its standard input ends, and prints as JSON how many answers had which status; 0 is
for requests whose connection was closed. It is of low priority: an attacker's processors are its
own, and here they are the scheduler's as well.
"""

import json
import os
import select
import socket
import ssl
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from kubeshare_py.admission.review import MOST_CONTAINERS
from tests.attacks.attacked_cluster import EXTENDED as SCHEDULER
from tests.attacks.attacked_cluster import NAME
from tests.attacks.raw import request, status, trusting

MIB = 2**20
_TYPES = "nvidia.com/use-gputype"
_JSON = "Content-Type: application/json"
_WAIT_S = 30.0
_NUMBERS = count()

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Flood:
    """So many connections that send what `make` gives, again and again; `reads` the answers?"""

    connections: int
    make: Callable[[], bytes]
    reads: bool = True


def pod(limits: Json | None = None, annotations: Json | None = None, **container: Any) -> Json:
    """A pod as kube-scheduler sends it."""
    one = {"name": "m", "resources": {"limits": {"nvidia.com/gpu": "1", **(limits or {})}}}
    metadata = {"name": "p", "namespace": "x", "uid": "u", "annotations": annotations or {}}
    return {
        "metadata": metadata,
        "spec": {"schedulerName": SCHEDULER, "containers": [{**one, **container}]},
    }


def question(asked: Json, *nodes: str) -> bytes:
    """A body of /filter."""
    return posted("/filter", {"Pod": asked, "NodeNames": list(nodes or ("n1", "n2"))})


def posted(path: str, body: Json) -> bytes:
    """A request whose connection is kept."""
    text = json.dumps(body, separators=(",", ":")).encode()
    return request("POST", path, _JSON, body=text).replace(b"Connection: close\r\n", b"")


def review(path: str, asked: Json) -> bytes:
    """A body of a webhook."""
    kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    found = {"uid": "u", "operation": "CREATE", "object": asked, "namespace": "x"}
    return posted(path, {**kind, "request": found})


def bind(name: str) -> bytes:
    """A body of /bind."""
    asked = {"PodName": name, "PodNamespace": "x", "PodUID": f"u{next(_NUMBERS)}", "Node": "n1"}
    return posted("/bind", asked)


def _crowd(scheduler: str, containers: int, labels: Json | None = None) -> Json:
    """A pod of so many containers that get variables."""
    asked = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0", **(labels or {})}
    many = [{"name": f"c{number}"} for number in range(containers)]
    spec = {"schedulerName": scheduler, "containers": many}
    return {"metadata": {"name": "p", "labels": asked}, "spec": spec}


def _always(made: bytes) -> Callable[[], bytes]:
    return lambda: made


def floods() -> dict[str, Callable[[], Flood]]:
    """All kinds by their names; bodies are made when they are needed."""
    ports = [{"hostPort": number} for number in range(1, 60_001)]
    labels = {f"k{number}": "v" for number in range(200_000)}
    words = ",".join(["a"] * 130_000)
    return {
        "types": lambda: Flood(
            6, _always(question(pod(annotations={_TYPES: "a," * (2 * MIB - 1000)})))
        ),
        "ports": lambda: Flood(6, _always(question(pod(annotations={_TYPES: words}, ports=ports)))),
        "amounts": lambda: Flood(
            6, _always(question(pod({f"k{number}": "1" for number in range(190_000)})))
        ),
        "names": lambda: Flood(
            6, _always(question(pod(), *(f"node-{number:040}" for number in range(65_000))))
        ),
        "small": lambda: Flood(16, _always(question(pod()))),
        "watch": lambda: Flood(60, lambda: bind("?watch=true&x=1")),
        "nul": lambda: Flood(8, lambda: bind("\0")),
        "unknown": lambda: Flood(32, lambda: bind(f"p{next(_NUMBERS) % 10_000}")),
        "reviews": lambda: Flood(20, _always(review("/webhook", _crowd(SCHEDULER, 70_000)))),
        "unread reviews": lambda: Flood(
            60, _always(review("/webhook", _crowd(SCHEDULER, MOST_CONTAINERS))), reads=False
        ),
        "pods": lambda: Flood(20, _always(review("/pods", _crowd(NAME, 70_000)))),
        "unread pods": lambda: Flood(
            60, _always(review("/pods", _crowd(NAME, MOST_CONTAINERS))), reads=False
        ),
        "unread others": lambda: Flood(
            60,
            _always(review("/others", _crowd("default-scheduler", MOST_CONTAINERS))),
            reads=False,
        ),
        "labels": lambda: Flood(20, _always(review("/pods", _crowd(NAME, 1, labels)))),
        "small pods": lambda: Flood(16, _always(review("/pods", _crowd(NAME, 1)))),
    }


@dataclass(slots=True)
class Flooding:
    """One flood of one port."""

    port: int
    flood: Flood
    answers: Counter[int] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Send for ever on one connection after the other."""
        context = trusting()
        while True:
            try:
                with (
                    socket.create_connection(("127.0.0.1", self.port), _WAIT_S) as raw,
                    context.wrap_socket(raw) as connection,
                ):
                    self._send(connection)
            except OSError:
                self._count(0)

    def _send(self, connection: ssl.SSLSocket) -> None:
        if not self.flood.reads:
            # A small window: most of the answer stays with the server.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(self.flood.make())
            cut_off = select.poll()
            cut_off.register(connection, select.POLLHUP | select.POLLRDHUP | select.POLLERR)
            cut_off.poll()
            raise ConnectionError
        with connection.makefile("rb") as file:
            while True:
                connection.sendall(self.flood.make())
                self._count(_status_read(file))

    def _count(self, found: int) -> None:
        with self._lock:
            self.answers[found] += 1


def _status_read(file: Any) -> int:
    """Read one answer. Raises ConnectionError if there is none."""
    first, length = file.readline(), 0
    while (line := file.readline().strip()) != b"":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    if not first:
        raise ConnectionError
    file.read(length)
    return status(first)


def main() -> None:
    """Flood until standard input ends."""
    kind, port = sys.argv[1:]
    os.nice(10)
    flooding = Flooding(int(port), floods()[kind]())
    for _ in range(flooding.flood.connections):
        threading.Thread(target=flooding.run, daemon=True).start()
    sys.stdin.read()
    print(json.dumps(flooding.answers))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
