import ssl
from pathlib import Path

import pytest

from kubeshare_py.edges.kube.config import load
from kubeshare_py.edges.kube.credential_reading import KubeConfigError, KubeReading
from kubeshare_py.edges.kube.credentials import Credentials
from tests.documents.unreadable import UNREADABLE
from tests.edges.kubeconfigs import (
    CERTIFICATE,
    KEY,
    exec_credential,
    in_base64,
    pem_pair,
    plugin,
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


def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    with pytest.raises(KubeConfigError, match=r"config.*object with name other in .*contexts"):
        load(write(tmp_path, {"token": "t"}), "other")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("{", "expected"),
        *UNREADABLE.items(),
        ("[]", "not a kubeconfig"),
        ("just text", "not a kubeconfig"),
        ("clusters: []", "current-context"),
        ("current-context: c\ncontexts: 3\n", "not a kubeconfig"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(KubeConfigError) as caught:
        load(str(path))
    assert str(path) in str(caught.value)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("user", "cluster", "complaint"),
    [
        ({"token": "t"}, {"server": ""}, "server"),
        ({"token": "t"}, {"server": "one:6443"}, "https://"),
        ({"token": "t"}, {"certificate-authority": "absent"}, "absent"),
        ({"token": "t"}, {"certificate-authority-data": "%%%"}, "config"),
        ({"token": "t"}, {"certificate-authority-data": in_base64("x")}, "certificate"),
        ({"client-certificate-data": in_base64(CERTIFICATE)}, {}, "without its key"),
        (
            {
                "client-certificate-data": in_base64(CERTIFICATE),
                "client-key-data": in_base64(pem_pair()[1]),
            },
            {},
            "unusable certificate or key",
        ),
        ({"tokenFile": "absent"}, {}, "absent"),
        ({"exec": {"apiVersion": "v1", "command": "no-such-plugin"}}, {}, "no-such-plugin"),
    ],
)
def test_what_is_wrong_in_a_kubeconfig_is_said(
    tmp_path: Path, user: object, cluster: dict[str, object], complaint: str
) -> None:
    path = write(tmp_path, user, cluster)
    with pytest.raises(KubeConfigError) as caught:
        load(path)
    assert path in str(caught.value)
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
