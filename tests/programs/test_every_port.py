"""Every port of every program, and clients that hold on to it: others are answered meanwhile."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from kubeshare_py.domain.quantity import amount
from kubeshare_py.edges.kube.certificates import make_certificates
from kubeshare_py.edges.process.bounded_server import Bounds
from tests.controlplane.processes import most_resident_bytes
from tests.controlplane.running import free_ports
from tests.embedded_cluster.embedded import cluster
from tests.patience import PATIENCE_S
from tests.programs.commands import expect_said, running

VALUES = Path(__file__).parents[2] / "deploy/chart/kubeshare/values.yaml"
#: Where the chart has what does not have its program's name.
SECTIONS = {"node_agent": "nodeAgent", "controller": "sharePods"}
#: How many are silent, and how much each of the others sends (bytes).
CROWD, SENT = 500, 4 * 2**20
HEAD = b"GET /livez HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /livez HTTP/1.1\r\nHost: x\r\n"
#: What the others send first, and then again and again: heads, bodies, and questions of which they
#: read no answer.
ENDLESS = (
    (HEAD, b"A: b\r\n" * 1000),
    (b"GET /", b"a" * 8000),
    (HEAD + b"A: ", b"a" * 8000),
    (POST + b"Content-Length: 1000000000000\r\n\r\n", b"x" * 65536),
    (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 2000),
    (b"", (HEAD + b"\r\n") * 500),
)
LOCAL = ("--address", "127.0.0.1", "--port", "0")


@dataclass(frozen=True, slots=True)
class Program:
    """A running program, its ports, and the chart's limit of its memory (bytes)."""

    pid: int
    ports: tuple["Port", ...]
    limit: int

    def descriptors(self) -> int:
        return len([*Path(f"/proc/{self.pid}/fd").iterdir()])


@dataclass(frozen=True, slots=True)
class Port:
    """One of them."""

    number: int
    is_tls: bool

    def connected(self) -> socket.socket:
        """A connection, after its handshake."""
        raw = socket.create_connection(("127.0.0.1", self.number), PATIENCE_S)
        if not self.is_tls:
            return raw
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            return context.wrap_socket(raw)
        except OSError:
            raw.close()
            raise

    def answers(self, path: str = "/livez") -> bool:
        """Whether an honest client is answered."""
        with self.connected() as honest:
            honest.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            return b" 200 " in honest.recv(4096)

    def send(self, first: bytes, again: bytes) -> None:
        """As much as the server takes, up to SENT, and read nothing."""
        with suppress(OSError), self.connected() as endless:
            endless.settimeout(0.5)
            endless.sendall(first)
            for _ in range(SENT // len(again)):
                endless.sendall(again)


@asynccontextmanager
async def started(
    folder: Path, module: str, *options: str, servers: int
) -> AsyncIterator[tuple[int, tuple[Port, ...]]]:
    async with running(folder, module, *options) as process:
        ports = []
        for _ in range(servers):
            line = json.loads(await expect_said(process.stderr, '"started"'))
            url = urlsplit(line["addresses"][0])
            assert url.port
            ports.append(Port(url.port, url.scheme == "https"))
        yield process.pid, tuple(ports)


#: Those that share all of their server with the others are tried by `make prove`.
_MODULES = [
    *("scheduler", "admission", "collector"),
    *(
        pytest.param(one, marks=pytest.mark.long)
        for one in ("node_agent", "aggregator", "controller", "dashboard")
    ),
]


@pytest.fixture(params=_MODULES)
async def program(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Program]:
    """Each, with all the ports that it may have."""
    extender, hami = free_ports(2)
    settings = {
        "server": {"bindAddress": "127.0.0.1", "port": 0},
        "extender": {"bindAddress": "127.0.0.1", "port": extender},
        "hamiMetrics": {"bindAddress": "127.0.0.1", "port": hami},
        "profiles": [{"schedulerName": "ours"}, {"schedulerName": "theirs", "extender": True}],
        "inventory": {"source": "annotation"},
    }
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
    made = make_certificates(tmp_path)
    files = (f"--certificate-file={made.certificate_file}", f"--key-file={made.key_file}")
    kubeconfig = ("--kubeconfig", str(tmp_path / "kubeconfig"))
    command: dict[str, tuple[tuple[str, ...], int]] = {
        "scheduler": (("--config", "settings.yaml", *kubeconfig), 3),
        "admission": ((*LOCAL, *files), 1),
        "collector": ((*LOCAL, "--node-name", "n1"), 1),
        "node_agent": ((*LOCAL, "--node-name", "n1", *kubeconfig), 1),
        "aggregator": ((*LOCAL, *kubeconfig), 1),
        "dashboard": ((*LOCAL, *kubeconfig), 1),
        "controller": ((*LOCAL, "--leader-elect", "false", *kubeconfig), 1),
    }
    options, servers = command[request.param]
    limit = _limit(request.param)
    async with (
        cluster(tmp_path),
        started(tmp_path, request.param, *options, servers=servers) as (pid, ports),
    ):
        yield Program(pid, ports, limit)


def _limit(module: str) -> int:
    """The chart's limit of its memory (bytes)."""
    values = yaml.safe_load(VALUES.read_text())
    section = values if module == "scheduler" else values[SECTIONS.get(module, module)]
    return amount("memory", section["resources"]["limits"]["memory"])


@pytest.mark.slow
async def test_clients_that_hold_on_to_a_port_keep_nobody_out(program: Program) -> None:
    for port in program.ports:
        assert await asyncio.to_thread(port.answers)
    for port in program.ports:
        before, crowd = program.descriptors(), []
        for _ in range(CROWD):
            crowd.append(socket.create_connection(("127.0.0.1", port.number)))
        assert await asyncio.to_thread(port.answers)
        assert program.descriptors() <= before + Bounds().connections
        for one in crowd:
            one.close()
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            sending = [
                group.create_task(asyncio.to_thread(port.send, *sent))
                for sent in (*ENDLESS, *ENDLESS)
            ]
            while not all(one.done() for one in sending):
                assert await asyncio.to_thread(port.answers)
        assert await asyncio.to_thread(port.answers)
    assert most_resident_bytes(program.pid) < program.limit
