import asyncio
import json
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kubeshare_py.edges.kube.certificates import make_certificates
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import Credentials, load
from kubeshare_py.edges.kube.errors import KubeConfigError
from kubeshare_py.edges.kube.kubeconfig import REREAD_S, Configured, KubectlOptions, KubeReading
from tests.edges.bare_server import serving
from tests.edges.kubeconfigs import (
    CERTIFICATE,
    KEY,
    exec_credential,
    in_base64,
    plugin,
    program,
    token_until,
    write,
)


async def test_a_token_becomes_the_header(tmp_path: Path) -> None:
    credentials = load(write(tmp_path, {"token": "secret"}))
    assert credentials.server == "https://one:6443"
    assert await credentials.headers() == {"Authorization": "Bearer secret"}


async def test_a_token_file_beside_the_kubeconfig_is_read(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    credentials = load(write(tmp_path, {"tokenFile": "token"}))
    assert await credentials.headers() == {"Authorization": "Bearer secret"}


async def test_a_client_certificate_needs_no_header(tmp_path: Path) -> None:
    user = {
        "client-certificate-data": in_base64(CERTIFICATE),
        "client-key-data": in_base64(KEY),
    }
    path = write(tmp_path, user, {"certificate-authority-data": in_base64(CERTIFICATE)})
    credentials = load(path)
    assert await credentials.headers() == {}
    assert credentials.ssl_context.verify_mode is ssl.CERT_REQUIRED
    assert len(credentials.ssl_context.get_ca_certs()) >= 1


def test_verification_can_be_switched_off_and_the_name_given(tmp_path: Path) -> None:
    options = {"insecure-skip-tls-verify": True, "tls-server-name": "other"}
    credentials = load(write(tmp_path, {"token": "t"}, options))
    assert credentials.ssl_context.verify_mode is ssl.CERT_NONE
    assert credentials.server_hostname == "other"


async def test_an_exec_plugin_gives_the_token(tmp_path: Path) -> None:
    credentials = load(write(tmp_path, plugin(tmp_path, exec_credential(token="from-plugin"))))
    assert await credentials.headers() == {"Authorization": "Bearer from-plugin"}


async def test_an_expired_token_of_a_plugin_is_replaced(tmp_path: Path) -> None:
    old = exec_credential(token="old", expirationTimestamp="2020-01-01T00:00:00Z")
    credentials = load(write(tmp_path, plugin(tmp_path, old)))
    plugin(tmp_path, exec_credential(token="new"))
    assert await credentials.headers() == {"Authorization": "Bearer new"}


async def test_a_plugin_that_fails_later_leaves_the_old_token(tmp_path: Path) -> None:
    old = exec_credential(token="old", expirationTimestamp="2020-01-01T00:00:00Z")
    credentials = load(write(tmp_path, plugin(tmp_path, old)))
    plugin(tmp_path, "nonsense")
    assert await credentials.headers() == {"Authorization": "Bearer old"}


def test_a_plugins_token_holds_until_shortly_before_its_end_or_until_a_401(tmp_path: Path) -> None:
    def valid_s(user: object) -> float | None:
        files = [Path(write(tmp_path, user))]
        return Configured(KubectlOptions(), files=files).reading().valid_s

    def until(end: str) -> float | None:
        return valid_s(plugin(tmp_path, exec_credential(token="t", expirationTimestamp=end)))

    # Two ends an hour apart, whatever the time is now.
    late, later = until("2999-01-01T00:00:00Z"), until("2999-01-01T01:00:00Z")
    assert late is not None
    assert later is not None
    assert later - late == pytest.approx(3600, abs=60)
    past = until("2020-01-01T00:00:00Z")
    assert past is not None
    assert past < 0
    assert valid_s(plugin(tmp_path, exec_credential(token="t"))) is None
    assert valid_s({"token": "t"}) == REREAD_S


async def test_a_user_to_act_as_is_named_in_each_request_with_all_groups(tmp_path: Path) -> None:
    asked = []

    async def handler(request: web.Request) -> web.Response:
        asked.append([one for one in request.headers.items() if one[0].startswith("Imp")])
        return web.json_response({})

    async with serving(handler) as url:
        user = {"token": "t", "as": "bob", "as-groups": ["g", "h"]}
        async with KubeClient(load(write(tmp_path, user, {"server": url}))) as client:
            await client.get("/read")
            await client.request("POST", "/written", body={})
    groups = [("Impersonate-Group", group) for group in ("g", "h")]
    assert asked == [[("Impersonate-User", "bob"), *groups]] * 2


def with_provider(name: str, **settings: str) -> dict[str, object]:
    return {"auth-provider": {"name": name, "config": settings}}


@pytest.mark.slow
async def test_gcps_command_gives_a_token(tmp_path: Path) -> None:
    answer = {"access_token": "from-gcp", "token_expiry": "2999-01-01T00:00:00Z"}
    command = program(tmp_path, f"print({json.dumps({'credential': answer})!r})", "gcloud")
    user = with_provider("gcp", **{"cmd-path": str(command), "cmd-args": "config"})
    credentials = load(write(tmp_path, user))
    assert await credentials.headers() == {"Authorization": "Bearer from-gcp"}


async def test_an_expired_id_token_is_renewed_and_written_back(tmp_path: Path) -> None:
    new, asked = token_until(99999999999), []

    async def handler(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({"token_endpoint": f"{request.url.origin()}/token"})
        asked.append((await request.post())["refresh_token"])
        return web.json_response({"access_token": "a", "id_token": new, "refresh_token": "second"})

    files = make_certificates(tmp_path)
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    server = TestServer(application)
    await server.start_server(ssl=files.server_context())
    async with server:
        client = {
            "client-id": "c",
            "client-secret": "s",
            "idp-issuer-url": str(server.make_url("")).rstrip("/"),
            "idp-certificate-authority": str(files.ca_file),
        }
        user = with_provider(
            "oidc", **client, **{"id-token": token_until(1), "refresh-token": "first"}
        )
        path = write(tmp_path, user)
        for _ in range(2):
            credentials = await asyncio.to_thread(load, path)
            assert await credentials.headers() == {"Authorization": f"Bearer {new}"}
    assert asked == ["first"]
    assert "second" in await asyncio.to_thread(Path(path).read_text)


@pytest.mark.parametrize(
    ("user", "complaint"),
    [
        (with_provider("gcp", **{"cmd-path": "false", "cmd-args": "x"}), "process returned 1"),
        (with_provider("azure"), "gives no valid token"),
        (with_provider("oidc", **{"id-token": "nonsense"}), "gives no valid token"),
        (
            with_provider(
                "oidc", **{"id-token": token_until(1), "idp-issuer-url": "http://127.0.0.1:1"}
            ),
            "gives no token",
        ),
    ],
)
def test_a_provider_that_gives_no_token_is_named_with_its_user(
    tmp_path: Path, user: object, complaint: str
) -> None:
    path = write(tmp_path, user)
    with pytest.raises(KubeConfigError, match=f"{path}: user u: auth-provider .*{complaint}"):
        load(path)


async def test_the_kubeconfig_of_the_environment_is_second(tmp_path: Path) -> None:
    first = write(tmp_path, {"token": "first"})
    second = write(tmp_path, {"token": "second"}, name="second")
    environ = {"KUBECONFIG": f"{tmp_path}/absent:{second}", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert (await load(None, environ=environ).headers())["Authorization"] == "Bearer second"
    assert (await load(first, environ=environ).headers())["Authorization"] == "Bearer first"


async def test_the_service_account_is_third_and_home_is_last(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("mounted\n")
    (tmp_path / "ca.crt").write_text(CERTIFICATE)
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube", {"token": "home"})
    home = {"HOME": str(tmp_path)}
    pod = home | {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    in_cluster = load(None, environ=pod, service_account=tmp_path)
    assert in_cluster.server == "https://[fd00::1]:443"
    assert await in_cluster.headers() == {"Authorization": "Bearer mounted"}
    assert await load(None, environ=home).headers() == {"Authorization": "Bearer home"}


def test_a_pod_without_its_token_is_told(tmp_path: Path) -> None:
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(KubeConfigError, match=r"service account .*token"):
        load(None, environ=pod, service_account=tmp_path)


@pytest.mark.slow
def test_a_pods_start_imports_no_package_of_all_kinds_of_kubernetes(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("mounted\n")
    (tmp_path / "ca.crt").write_text(CERTIFICATE)
    asked = (
        "import pathlib, sys; from kubeshare_py.edges.kube.credentials import load; "
        "pod = {'KUBERNETES_SERVICE_HOST': '10.0.0.1', 'KUBERNETES_SERVICE_PORT': '443'}; "
        "load(None, environ=pod, service_account=pathlib.Path(sys.argv[1])); "
        "sys.exit('kubernetes' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", asked, tmp_path], check=False).returncode == 0


def test_an_empty_token_of_a_pod_is_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    (tmp_path / "ca.crt").write_text(CERTIFICATE)
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(KubeConfigError, match=r"service account .*: its token is empty"):
        load(None, environ=pod, service_account=tmp_path)


def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    with pytest.raises(KubeConfigError, match=r"config.*'other' does not exist \(there are: ctx\)"):
        load(write(tmp_path, {"token": "t"}), "other")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "names no server"),
        ("{", "expected"),
        ("clusters: []", "names no server"),
        ("contexts: [{name: a}, {name: b}]", "no current-context (there are: a, b)"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_named_inside_a_pod_too(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(KubeConfigError) as caught:
        load(str(path), environ=pod)
    assert str(path) in str(caught.value)
    assert complaint in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeConfigError, match="absent: no such file"):
        load(str(tmp_path / "absent"))


async def test_a_new_certificate_authority_is_trusted_from_the_next_reading_on() -> None:
    readings = iter([None, CERTIFICATE])
    credentials = Credentials(
        "test", lambda: KubeReading(server="https://one", ca=next(readings), valid_s=0)
    )
    before = len(credentials.ssl_context.get_ca_certs())
    await credentials.headers()
    assert len(credentials.ssl_context.get_ca_certs()) == before + 1
