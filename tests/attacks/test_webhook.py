"""The webhook's port by clients that are not kube-apiserver."""

import asyncio
import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.attacks.attack import gpu_pod
from tests.attacks.attacked_cluster import AttackedCluster
from tests.attacks.raw import answered, crowd, request, status
from tests.attacks.test_state_port import STRANGE
from tests.attacks.waits import flooded, waits_of
from tests.controlplane.processes import Process, most_resident_bytes, process
from tests.controlplane.running import free_ports
from tests.patience import PATIENCE_S
from tests.scale import is_full

pytestmark = pytest.mark.real_only("it needs a control plane and Helm")

#: What its memory may grow by (bytes): a few bodies at a time.
ROOM = 64 * 2**20
#: The chart's limit of its memory (bytes).
LIMIT = 256 * 2**20
JSON = "Content-Type: application/json"


@dataclass(frozen=True, slots=True)
class Webhook:
    """The process, where it listens, what it says."""

    process: Process
    port: int
    log: Path

    async def reviews(self, _: int = 0) -> None:
        """It answers as ever."""
        asked = {"uid": "u", "operation": "CREATE", "object": gpu_pod("p"), "namespace": "x"}
        kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        body = json.dumps({**kind, "request": asked}).encode()
        answer = await answered(self.port, request("POST", "/pods", JSON, body=body))
        assert status(answer) == HTTPStatus.OK
        assert b'"patch"' in answer


@pytest.fixture(scope="module")
def webhook(
    attacked: AttackedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Webhook]:
    """One with a certificate of its own, which needs no right in the API server."""
    folder = tmp_path_factory.mktemp("webhook")
    [port] = free_ports(1)
    certificates = attacked.plane.secrets.certificates
    module = (sys.executable, "-m", "kubeshare_cmd.admission", "--address=127.0.0.1")
    command = [
        *(*module, f"--port={port}", f"--certificate-file={certificates.certificate_file}"),
        f"--key-file={certificates.key_file}",
    ]
    log = folder / "webhook.log"
    with process(command, log) as running:
        running.wait_until(lambda: '"event":"started"' in log.read_text(), 30)
        yield Webhook(running, port, log)
        assert running.is_running()
        assert "Traceback" not in log.read_text()


async def test_bodies_that_are_too_large_packed_or_not(webhook: Webhook) -> None:
    await webhook.reviews()
    before = webhook.process.resident_bytes()
    large = b"x" * 8_000_000
    bomb = gzip.compress(b"\0" * 200_000_000, 9)
    deflate = "Content-Encoding: gzip"
    for path in ("/pods", "/others"):
        sent = request("POST", path, JSON, body=large)
        assert status(await answered(webhook.port, sent)) in (0, 413)
        for _ in range(3):
            sent = request("POST", path, JSON, deflate, body=bomb)
            assert 400 <= status(await answered(webhook.port, sent)) < 500
    assert webhook.process.resident_bytes() < before + ROOM
    await webhook.reviews()


async def test_bodies_that_are_no_review(webhook: Webhook) -> None:
    bodies = [b"", b"{", b"[" * 100_000, b"null", b'{"request": 1}', b"\xff\xfe", b"1e999"]
    bodies += [b'{"request":{"object":' * 5000, json.dumps({"request": {"object": []}}).encode()]
    for body in bodies:
        answer = await answered(webhook.port, request("POST", "/pods", JSON, body=body))
        assert 400 <= status(answer) < 500
    for path in ("/../pods", "/pods/../others", "/pods%00", "//pods", "/metrics"):
        assert status(await answered(webhook.port, request("POST", path, body=b"{}"))) == 404
    await webhook.reviews()


async def test_strange_heads(webhook: Webhook) -> None:
    for sent in STRANGE:
        answer = await answered(webhook.port, sent)
        assert status(answer) == 0 or 400 <= status(answer) < 500
    assert "Traceback" not in webhook.log.read_text()


async def test_heads_and_bodies_that_never_end(webhook: Webhook, full_scale: bool) -> None:
    size = 1000 if full_scale else 300
    body = request("POST", "/pods", JSON, "Content-Length: 3000000") + b"{"
    for sent in (b"", b"POST /pods HTTP/1.1\r\nHost: x\r\n", body):
        async with crowd(webhook.port, size, sent), asyncio.timeout(PATIENCE_S):
            answer = await answered(webhook.port, request("GET", "/livez"))
            assert status(answer) == HTTPStatus.OK
    await webhook.reviews()


#: What floods of each kind are answered with; 0 is a closed connection.
FLOODS = {
    "pods": {200, 429},
    "unread pods": {429},
    "unread others": {429},
    "labels": {200, 429},
    "small pods": {200, 429},
}


#: Those with which most was found; `make prove` tries all.
WORST = ("unread pods", "labels")


@pytest.mark.parametrize("kind", FLOODS if is_full() else WORST)
async def test_honest_reviews_hardly_wait_while_the_port_is_flooded(
    kind: str, webhook: Webhook, full_scale: bool
) -> None:
    """And the memory stays below the chart's limit."""
    number = 300 if full_scale else 60
    rest = await waits_of(webhook.reviews, number // 2)
    async with flooded(kind, webhook.port) as answers:
        await asyncio.sleep(1)
        waits = await waits_of(webhook.reviews, number)
    rest += await waits_of(webhook.reviews, number // 2)
    peak = most_resident_bytes(webhook.process.pid)
    print(f"{kind}: {waits}; at rest {rest}; {peak / 2**20:.0f} MiB; {answers}")
    assert {*answers} <= {0, *FLOODS[kind]}, answers
    waits.expect_little_beside(rest)
    assert peak < LIMIT
