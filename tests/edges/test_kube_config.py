import base64
import datetime
import json
import ssl
import stat
import sys
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeshare_py.edges.credentials import Credentials, KubeConfigError, Reading
from kubeshare_py.edges.kube_config import load
from tests.documents.unreadable import UNREADABLE


def pem_pair() -> tuple[str, str]:
    """A self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=36500))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), secret.decode()


CERTIFICATE, KEY = pem_pair()


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def write(
    folder: Path, user: object, cluster: dict[str, object] | None = None, *, name: str = "config"
) -> str:
    """A kubeconfig with one context; gives its path."""
    there = {"server": "https://one:6443"} | (cluster or {})
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "ctx",
        "contexts": [{"name": "ctx", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": there}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / name
    path.write_text(yaml.safe_dump(config))
    return str(path)


def plugin(folder: Path, text: str) -> dict[str, object]:
    """An exec plugin that prints `text`; the user section that names it."""
    path = folder / "plugin"
    path.write_text(f"#!{sys.executable}\nprint({text!r})\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path)}}


def exec_credential(**status: str) -> str:
    return json.dumps(
        {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        }
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
        "test", lambda: Reading(server="https://one", ca=next(readings), valid_s=0)
    )
    before = len(credentials.ssl_context.get_ca_certs())
    await credentials.headers()
    assert len(credentials.ssl_context.get_ca_certs()) == before + 1
