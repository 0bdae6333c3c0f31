"""Which clients the extender's port answers, over real TLS."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from kubeshare_py.configuration.scheduler import ConfigurationError, Extender, read
from kubeshare_py.edges.kube.certificates import common_name, make_authority, make_certificates
from kubeshare_py.edges.scheduler import configuration_file
from kubeshare_py.edges.scheduler.extender_server import ask_for_certificates, serve_extender


@dataclass(slots=True)
class Calls:
    """Answers every request with its verb."""

    problem: str = ""

    async def filter(self, body: bytes, client: str) -> bytes:
        return b'"filter"'

    async def score(self, body: bytes, client: str) -> bytes:
        return b'"prioritize"'

    async def bind(self, body: bytes, client: str) -> bytes:
        return b'"bind"'

    async def review(self, body: bytes, client: str) -> bytes | None:
        return b'"review"' if body == b"{}" else None


@asynccontextmanager
async def serving(folder: Path, settings: Extender, calls: Calls) -> AsyncIterator[str]:
    context = make_certificates(folder / "server").server_context()
    ask_for_certificates(context, settings)
    async with serve_extender(settings, context, calls) as url:
        yield url


async def post(
    url: str, context: ssl.SSLContext, path: str = "/bind", body: bytes = b"{}"
) -> tuple[int, str]:
    connector = aiohttp.TCPConnector(ssl=context)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post(f"{url}{path}", data=body) as answer,
    ):
        return answer.status, await answer.text()


def trusting(folder: Path) -> ssl.SSLContext:
    return make_certificates(folder / "server").client_context()


async def test_without_an_authority_every_client_is_answered(tmp_path: Path) -> None:
    async with serving(tmp_path, Extender(bind_address="127.0.0.1", port=0), Calls()) as url:
        assert await post(url, trusting(tmp_path)) == (200, '"bind"')


async def test_with_an_authority_only_its_clients_are_answered(tmp_path: Path) -> None:
    ours, another = make_authority("clients"), make_authority("others")
    ca = tmp_path / "clients.crt"
    ca.write_text(ours.pem())
    settings = Extender(bind_address="127.0.0.1", port=0, client_ca_file=str(ca))
    async with serving(tmp_path, settings, Calls()) as url:
        for authority, is_answered in ((ours, True), (another, False)):
            usage, hour = ExtendedKeyUsageOID.CLIENT_AUTH, timedelta(hours=1)
            certificate, key = authority.issue(common_name("kube-scheduler"), usage, hour)
            file = tmp_path / "client.pem"
            file.write_text(certificate + key)
            context = trusting(tmp_path)
            context.load_cert_chain(file)
            if is_answered:
                assert await post(url, context) == (200, '"bind"')
            else:
                with pytest.raises(aiohttp.ClientError):
                    await post(url, context)
        with pytest.raises(aiohttp.ClientError):
            await post(url, trusting(tmp_path))


async def test_while_another_process_leads_requests_get_503_and_it_is_not_ready(
    tmp_path: Path,
) -> None:
    calls = Calls("another process leads")
    settings = Extender(bind_address="127.0.0.1", port=0)
    async with serving(tmp_path, settings, calls) as url:
        assert await post(url, trusting(tmp_path)) == (503, "another process leads\n")
        connector = aiohttp.TCPConnector(ssl=trusting(tmp_path))
        async with aiohttp.ClientSession(connector=connector) as session:
            for path, status in (("/livez", 200), ("/readyz", 500), ("/healthz", 500)):
                async with session.get(f"{url}{path}") as answer:
                    assert answer.status == status
        calls.problem = ""
        assert await post(url, trusting(tmp_path)) == (200, '"bind"')


async def test_reviews_are_answered_whoever_leads(tmp_path: Path) -> None:
    settings = Extender(bind_address="127.0.0.1", port=0)
    async with serving(tmp_path, settings, Calls("another process leads")) as url:
        context = trusting(tmp_path)
        assert await post(url, context, "/webhook") == (200, '"review"')
        assert await post(url, context, "/webhook", b"?") == (400, "not an AdmissionReview\n")


async def test_a_port_that_is_taken_is_an_error_that_names_it(tmp_path: Path) -> None:
    first = Extender(bind_address="127.0.0.1", port=0)
    async with serving(tmp_path, first, Calls()) as url:
        taken = Extender(bind_address="127.0.0.1", port=int(url.rsplit(":", 1)[1]))
        with pytest.raises(ConfigurationError, match="extender: cannot listen on"):
            async with serving(tmp_path, taken, Calls()):
                pass


@pytest.mark.parametrize("field", ["certificateFile", "clientCaFile"])
def test_files_that_are_not_there_are_named_before_anything_starts(
    tmp_path: Path, field: str
) -> None:
    settings = read({"extender": {field: str(tmp_path / "none")}})
    with pytest.raises(ConfigurationError, match=rf"extender\.{field}: .*none: No such file"):
        configuration_file.check(settings)
    with pytest.raises(ConfigurationError, match=r"extender\.clientCaFile"):
        ask_for_certificates(
            ssl.create_default_context(), Extender(client_ca_file=str(tmp_path / "none"))
        )
