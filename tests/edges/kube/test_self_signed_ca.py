"""A webhook that is its own authority: it says so before it uses a certificate, and renews in time.

The API server is a plain one that keeps the one object: the embedded cluster has no webhooks.
"""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography import x509

from kubeshare_py.edges.kube.certificates import (
    CONFIGURATIONS,
    MAX,
    Pace,
    SelfSignedCa,
    api_service,
    make_certificates,
    webhooks,
    with_authority,
)
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.kubeconfig import KubeReading

PATH = f"{CONFIGURATIONS}/kubeshare-admission"
NOW = Pace(renew_after=timedelta(0))


class Configuration:
    """The object, as an API server keeps it, and one more writer who may be faster."""

    def __init__(self) -> None:
        self.version = 1
        self.webhooks: list[dict[str, Any]] = [{"clientConfig": {}}, {"clientConfig": {}}]
        self.faster = 0
        self.broken = False

    def bundle(self, index: int = 0) -> bytes:
        return base64.b64decode(self.webhooks[index]["clientConfig"].get("caBundle", ""))

    def shown(self) -> dict[str, Any]:
        metadata = {"name": "kubeshare-admission", "resourceVersion": str(self.version)}
        return {"metadata": metadata, "webhooks": self.webhooks}

    async def get(self, request: web.Request) -> web.Response:
        if self.broken:
            return web.json_response({"code": 500}, status=500)
        return web.json_response(self.shown())

    async def patch(self, request: web.Request) -> web.Response:
        if self.faster:
            self.faster -= 1
            self.version += 1
        try:
            changed = jsonpatch.apply_patch(self.shown(), json.loads(await request.read()))
        except jsonpatch.JsonPatchTestFailed:
            return web.json_response({"code": 422, "reason": "Invalid"}, status=422)
        self.version += 1
        self.webhooks = changed["webhooks"]
        return web.json_response(self.shown())


@asynccontextmanager
async def served(configuration: Configuration) -> AsyncIterator[KubeClient]:
    app = web.Application()
    app.add_routes([web.get(PATH, configuration.get), web.patch(PATH, configuration.patch)])
    async with TestServer(app) as server:
        reading = KubeReading(server=str(server.make_url("")).rstrip("/"))
        async with KubeClient(Credentials("test", lambda: reading)) as client:
            yield client


class Steps:
    """Lets `keep` go on a number of steps, and remembers how long it wanted to wait."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.waited: list[float] = []

    async def __call__(self, delay_s: float) -> None:
        self.waited.append(delay_s)
        self.left -= 1
        if self.left <= 0:
            raise asyncio.CancelledError


def authority(client: KubeClient, folder: Path, pace: Pace | None = None) -> SelfSignedCa:
    caller = webhooks("kubeshare-admission")
    return SelfSignedCa(client, caller, ("a.b.svc",), folder, pace or Pace())


async def go(own: SelfSignedCa, count: int) -> list[float]:
    steps = Steps(count)
    with pytest.raises(asyncio.CancelledError):
        await own.keep(steps)
    return steps.waited


def of(folder: Path, number: int) -> bytes:
    return (folder / str(number) / "ca.crt").read_bytes()


async def test_every_webhook_is_told_whom_to_trust_and_then_it_is_ready(tmp_path: Path) -> None:
    configuration, pace = Configuration(), Pace()
    async with served(configuration) as client:
        own = authority(client, tmp_path)
        assert own.problem
        assert await go(own, 2) == [pace.settle_s, pace.check_s]
        assert own.problem == ""
    assert configuration.bundle(0) == configuration.bundle(1) == of(tmp_path, 1)


async def test_what_is_told_already_is_not_told_again(tmp_path: Path) -> None:
    configuration, pace = Configuration(), Pace()
    async with served(configuration) as client:
        await go(own := authority(client, tmp_path), 2)
        before = configuration.version
        assert await go(own, 2) == [pace.check_s, pace.check_s]
    assert configuration.version == before


async def test_failures_are_followed_by_longer_pauses_up_to_the_usual_one(tmp_path: Path) -> None:
    configuration, pace = Configuration(), Pace()
    configuration.broken = True
    async with served(configuration) as client:
        own = authority(client, tmp_path)
        waited = await go(own, 6)
        assert waited == [2.0, 4.0, 8.0, 16.0, pace.check_s, pace.check_s]
        configuration.broken = False
        await go(own, 2)
        configuration.broken = True
        assert await go(own, 1) == [pace.retry_s]


@pytest.mark.parametrize(
    ("spec", "bundles"),
    [
        ({}, [("/spec/caBundle", "")]),
        ({"caBundle": "eA=="}, [("/spec/caBundle", "eA==")]),
        # Both at once are refused, and whoever said so meant it.
        ({"insecureSkipTLSVerify": True}, []),
    ],
)
def test_an_api_service_has_one_bundle(
    spec: dict[str, Any], bundles: list[tuple[str, str]]
) -> None:
    caller = api_service("v1.state.kubeshare.io")
    assert caller.path.endswith("/apiservices/v1.state.kubeshare.io")
    assert list(caller.bundles({"spec": spec})) == bundles


async def test_who_was_faster_is_not_undone(tmp_path: Path) -> None:
    configuration, pace = Configuration(), Pace()
    configuration.faster = 2
    async with served(configuration) as client:
        own = authority(client, tmp_path)
        assert await go(own, 1) == [pace.settle_s]
        assert configuration.version == 4
    assert configuration.bundle() == of(tmp_path, 1)


async def test_where_others_are_always_faster_it_is_tried_again_later(tmp_path: Path) -> None:
    configuration, pace = Configuration(), Pace()
    configuration.faster = 3
    async with served(configuration) as client:
        own = authority(client, tmp_path)
        assert await go(own, 1) == [pace.retry_s]
        assert own.problem
        await go(own, 2)
    assert configuration.bundle() == of(tmp_path, 1)


async def test_replicas_are_trusted_side_by_side(tmp_path: Path) -> None:
    configuration = Configuration()
    async with served(configuration) as client:
        for name in ("one", "two"):
            await go(authority(client, tmp_path / name), 2)
    for name in ("one", "two"):
        assert of(tmp_path / name, 1) in configuration.bundle()


async def test_an_authority_that_somebody_took_out_is_put_back(tmp_path: Path) -> None:
    configuration = Configuration()
    async with served(configuration) as client:
        own = authority(client, tmp_path)
        await go(own, 2)
        configuration.webhooks[0]["clientConfig"] = {"caBundle": "no bundle"}
        await go(own, 2)
    assert configuration.bundle() == of(tmp_path, 1)


async def test_a_new_certificate_is_used_after_it_is_trusted(tmp_path: Path) -> None:
    configuration = Configuration()
    async with served(configuration) as client:
        own = authority(client, tmp_path, NOW)
        configuration.broken = True
        await go(own, 2)
        assert await presented(own.context, tmp_path) == subject(tmp_path, 1)
        configuration.broken = False
        await go(own, 2)
        assert of(tmp_path, 2) in configuration.bundle()
        assert await presented(own.context, tmp_path) == subject(tmp_path, 2)
    # While the API server did not answer, none was made in vain.
    assert not (tmp_path / "3").exists()


async def presented(context: ssl.SSLContext, folder: Path) -> bytes:
    """The certificate that a server with this context shows."""

    async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    server = await asyncio.start_server(nothing, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=blind)
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
    return shown


def subject(folder: Path, number: int) -> bytes:
    text = (folder / str(number) / "server.crt").read_text()
    return ssl.PEM_cert_to_DER_cert(text)


def test_a_bundle_forgets_what_is_over_and_what_is_no_certificate(tmp_path: Path) -> None:
    [short, long] = [
        make_certificates(tmp_path / str(days), valid=timedelta(days=days)).ca_file.read_bytes()
        for days in (1, 3)
    ]
    now = made_at(short)
    junk = b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
    assert with_authority(junk + short, long, now) in (short + long, long + short)
    assert with_authority(junk + short, long, now + timedelta(days=2)) == long
    assert with_authority(long, long, now) == long


def made_at(certificate: bytes) -> datetime:
    return x509.load_pem_x509_certificate(certificate).not_valid_before_utc


def test_a_bundle_does_not_grow_for_ever_and_keeps_the_newest(tmp_path: Path) -> None:
    bundle = b""
    for number in range(MAX + 2):
        own = make_certificates(tmp_path / str(number)).ca_file.read_bytes()
        bundle = with_authority(bundle, own, made_at(own))
        assert own in bundle
    assert len(x509.load_pem_x509_certificates(bundle)) == MAX
