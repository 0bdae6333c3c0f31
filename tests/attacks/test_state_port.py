"""The scheduler's port, by clients without rights: tokens, headers, paths, methods, patience."""

import asyncio
import base64
import json
from http import HTTPStatus

import pytest

from kubeshare_py.domain.values import replace
from tests.attacks.attack import STATE, Attack, gpu_pod, pods_of
from tests.attacks.attacked_cluster import ADA, ATTACKER, MALLORY, NAME, RITA, VICTIM, VICTOR
from tests.attacks.raw import answered, crowd, request, status
from tests.controlplane.helm import NAMESPACE
from tests.deploy.conftest import kubectl

pytestmark = pytest.mark.real_only("it needs admission policies, Helm and a scheduler's own role")

PATHS = (
    *("/metrics", "/configz"),
    *(f"{STATE}/gpus", f"{STATE}/pods", f"{STATE}/namespaces/{VICTIM}/pods/secret"),
)
REFUSED = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}
#: As kube-apiserver's proxy names a user, and as kubectl's --as does.
NAMING = (
    "X-Remote-User: system:admin",
    "X-Remote-Group: system:masters",
    "X-Remote-Extra-scopes: all",
    "Impersonate-User: system:admin",
    "Impersonate-Group: system:masters",
    "X-Forwarded-Client-Cert: Subject=front-proxy-client",
)
AROUND = (
    *(f"/livez/..{STATE}/gpus", f"/livez%2f..{STATE}/gpus", f"/{STATE}/gpus", "//metrics"),
    *(f"{STATE}/pods/../../v1/gpus", f"/.{STATE}/gpus", "/healthz/..;/metrics", "/./metrics"),
    *(f"{STATE}/pods/%2e%2e%2fgpus", f"{STATE}/gpus/", f"{STATE.upper()}/gpus", "/METRICS"),
    *("/apis/../metrics", f"{STATE}/namespaces/../gpus", "/livez/metrics", "/%00"),
    *(f"{STATE}/namespaces/{ATTACKER}/pods/..%2f..%2f{VICTIM}%2fpods%2fsecret",),
    *("/etc/passwd", "/../../../../etc/passwd", "/static/../../etc/passwd", f"/{'a' * 7000}"),
)
STRANGE = (
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /metrics\r\n\r\n",
    b"GET http://[ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: " + b"b" * 100_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    b"\x00" * 1000,
    b"\x16\x03\x01\r\n\r\n",
)


def altered(token: str) -> str:
    """The same with an administrator's name, and the signature of what it was."""
    head, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    claims["sub"] = "system:serviceaccount:kube-system:kubeshare-scheduler"
    claims["exp"] = 1
    forged = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"{head}.{forged}.{signature}"


async def test_no_token_opens_what_its_owner_may_not_see(attack: Attack) -> None:
    await attack.victor.create(pods_of(VICTIM), gpu_pod("secret"))
    await attack.expect_bound("secret", VICTIM)
    real = await asyncio.to_thread(attack.attacked_cluster.plane.token_of, ATTACKER, "default")
    tokens = ("", "x", "Bearer", "\xe9", "x" * 7000, "a.b.c", altered(real), real, f"{real}x")
    for path in PATHS:
        for token in tokens:
            for scheme in ("Bearer", "bearer", "Basic"):
                header = f"Authorization: {scheme} {token}"
                answer = await answered(attack.attacked_cluster.port, request("GET", path, header))
                assert status(answer) in REFUSED


async def test_nobody_names_a_user_without_the_proxys_certificate(attack: Attack) -> None:
    for path in PATHS:
        for method in ("GET", "HEAD", "POST"):
            answer = await answered(attack.attacked_cluster.port, request(method, path, *NAMING))
            assert status(answer) in {*REFUSED, HTTPStatus.METHOD_NOT_ALLOWED}


async def test_no_user_acts_as_another_by_way_of_the_api_server(attack: Attack) -> None:
    for user in (MALLORY, ADA, RITA):
        plane = replace(
            attack.attacked_cluster.plane, kubeconfig=attack.attacked_cluster.kubeconfig(user)
        )
        for path in (f"{STATE}/gpus", f"{STATE}/namespaces/{VICTIM}/pods"):
            for other in (VICTOR, "system:admin", f"system:serviceaccount:{NAMESPACE}:{NAME}"):
                with pytest.raises(AssertionError, match="cannot impersonate"):
                    await kubectl(plane, "get", "--raw", path, f"--as={other}")


async def test_no_path_leads_around_the_question(attack: Attack) -> None:
    for path in AROUND:
        answer = await answered(attack.attacked_cluster.port, request("GET", path))
        assert 400 <= status(answer) < 500
        assert b"root:" not in answer


async def test_no_method_and_no_bytes_leave_a_traceback(attack: Attack) -> None:
    for sent in STRANGE:
        answer = await answered(attack.attacked_cluster.port, sent)
        assert status(answer) == 0 or 400 <= status(answer) < 500
    for method in ("TRACE", "DELETE", "PUT", "PATCH", "get", "PROPFIND", "X" * 1000):
        answer = await answered(attack.attacked_cluster.port, request(method, f"{STATE}/gpus"))
        assert 400 <= status(answer) < 500
    assert "Traceback" not in attack.said()


async def test_large_bodies_are_not_waited_for(attack: Attack) -> None:
    before = resident(attack)
    length = "Content-Length: 1000000000000"
    sent = request("POST", f"{STATE}/gpus", length) + b"x" * 4_000_000
    async with crowd(attack.attacked_cluster.port, 20, sent):
        await attack.expect_victim_bound()
    assert resident(attack) < before + 32 * 2**20


async def test_silent_clients_do_not_keep_others_out(attack: Attack, full_scale: bool) -> None:
    size = 1000 if full_scale else 300
    for sent in (b"", b"GET /metrics HTTP/1.1\r\nHost: x\r\n"):
        async with crowd(attack.attacked_cluster.port, size, sent):
            answer = await answered(attack.attacked_cluster.port, request("GET", "/livez"))
            assert status(answer) == HTTPStatus.OK
            await attack.expect_victim_bound()
            await attack.create(gpu_pod("big", {"gpu_request": "9", "gpu_limit": "9"}))
            await attack.expect_waiting("big")
            assert (await attack.why(attack.mallory, "big"))["pod"]["state"]
            await attack.mallory.delete(f"{pods_of(ATTACKER)}/big", grace_period_s=0)


def resident(attack: Attack) -> int:
    """The scheduler's memory (bytes)."""
    return attack.attacked_cluster.scheduler.resident_bytes()
