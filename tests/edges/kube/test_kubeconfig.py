"""Every kind of kubeconfig that kubectl takes becomes an address and credentials."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeshare_py.edges.cli.state_client import ApiAccess
from kubeshare_py.edges.kube.errors import KubeConfigError
from kubeshare_py.edges.kube.kubeconfig import REREAD_S, Configured, KubeReading, tls_context
from tests.documents.unreadable import UNREADABLE
from tests.edges.kubeconfigs import (
    CERTIFICATE,
    KEY,
    V1,
    exec_credential,
    in_base64,
    pem_pair,
    plugin,
    program,
    token_until,
    write,
)

NOWHERE = {"HOME": "/nonexistent"}
PAIR = {"client-certificate-data": in_base64(CERTIFICATE), "client-key-data": in_base64(KEY)}


def configured(path: str, environ: dict[str, str] | None = None, **options: Any) -> Configured:
    return Configured(ApiAccess(kubeconfig=path, **options), environ=environ or NOWHERE)


def read(path: str, environ: dict[str, str] | None = None, **options: Any) -> KubeReading:
    return configured(path, environ, **options).reading()


def test_a_token_becomes_the_header(tmp_path: Path) -> None:
    reading = read(write(tmp_path, {"token": "secret"}))
    assert (reading.server, reading.authorization) == ("https://one:6443", "Bearer secret")


def test_a_token_file_goes_before_the_token_and_starts_from_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("fresh\n")
    path = write(tmp_path, {"token": "old", "tokenFile": "token"})
    assert read(path).authorization == "Bearer fresh"
    assert read(path, token="given").authorization == "Bearer given"


def test_user_and_password_are_basic_authentication(tmp_path: Path) -> None:
    path = write(tmp_path, {"username": "ann", "password": "p:w"})
    assert read(path).authorization == f"Basic {in_base64('ann:p:w')}"


@pytest.mark.parametrize("inline", [True, False], ids=["data", "files"])
def test_a_client_certificate_and_the_authority_are_trusted(tmp_path: Path, inline: bool) -> None:
    (tmp_path / "crt").write_text(CERTIFICATE)
    (tmp_path / "key").write_text(KEY)
    user = PAIR if inline else {"client-certificate": "crt", "client-key": "key"}
    cluster: dict[str, object] = {"certificate-authority": "crt"}
    if inline:
        cluster = {"certificate-authority-data": in_base64(CERTIFICATE)}
    reading = read(write(tmp_path, user, cluster))
    assert reading.authorization is None
    # Only the cluster's own authority, as for client-go.
    assert len(tls_context(reading, "test").get_ca_certs()) == 1


def test_options_stand_in_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "own.crt").write_text(CERTIFICATE)
    (tmp_path / "own.key").write_text(KEY)
    path = write(tmp_path, PAIR | {"token": "t"}, {"certificate-authority-data": "%%%"})
    reading = read(
        path,
        server="https://two/",
        certificate_authority=str(tmp_path / "own.crt"),
        client_certificate=str(tmp_path / "own.crt"),
        client_key=str(tmp_path / "own.key"),
        tls_server_name="other",
        insecure_skip_tls_verify=True,
    )
    assert (reading.server, reading.ca) == ("https://two", CERTIFICATE)
    assert reading.client_certificate == f"{CERTIFICATE}\n{KEY}".encode()
    assert (reading.server_hostname, reading.verify) == ("other", False)


def test_without_any_kubeconfig_a_server_and_a_token_are_enough() -> None:
    access = ApiAccess(server="https://one:6443", token="t")
    reading = Configured(access, environ=NOWHERE).reading()
    assert (reading.server, reading.authorization) == ("https://one:6443", "Bearer t")


def test_the_clusters_options_are_read(tmp_path: Path) -> None:
    options = {
        "tls-server-name": "other",
        "insecure-skip-tls-verify": True,
        "proxy-url": "socks5://localhost:1",
    }
    reading = read(write(tmp_path, {"token": "t"}, options))
    assert (reading.server_hostname, reading.verify) == ("other", False)
    assert reading.proxy == "socks5://localhost:1"


def test_several_files_are_merged_and_the_first_that_says_something_counts(tmp_path: Path) -> None:
    one = write(tmp_path, {"token": "first"}, context="a", namespace="team")
    two = write(tmp_path, {"token": "second"}, name="two", context="b")
    environ = {"KUBECONFIG": f"{tmp_path}/absent:{one}:{two}"}
    config = Configured(ApiAccess(), environ=environ)
    assert config.reading().authorization == "Bearer first"
    assert config.namespace() == "team"
    # Of two users with one name the first counts, whole.
    other = Configured(ApiAccess(context="b"), environ=environ)
    assert other.reading().authorization == "Bearer first"
    assert other.namespace() == "default"


def test_an_empty_entry_and_an_empty_file_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    path = write(tmp_path, None)
    environ = {"KUBECONFIG": f"{tmp_path}/empty:{path}"}
    assert Configured(ApiAccess(), environ=environ).reading().authorization is None


def test_cluster_user_and_namespace_can_be_chosen(tmp_path: Path) -> None:
    config = yaml.safe_load(Path(write(tmp_path, {"token": "t"})).read_text())
    config["clusters"].append({"name": "d", "cluster": {"server": "https://two"}})
    config["users"].append({"name": "v", "user": {"token": "other"}})
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    chosen = configured(str(tmp_path / "config"), cluster="d", user="v", namespace="n")
    reading = chosen.reading()
    assert (reading.server, reading.authorization) == ("https://two", "Bearer other")
    assert chosen.namespace() == "n"


def test_as_is_sent_as_headers_and_replaces_whom_the_file_would_act_as(tmp_path: Path) -> None:
    user = {"token": "t", "as": "bob", "as-groups": ["g"], "as-uid": "7"}
    path = write(tmp_path, user | {"as-user-extra": {"Scopes": ["a", "b"], "x/y": ["z"]}})
    assert read(path).impersonation == (
        ("Impersonate-User", "bob"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Extra-scopes", "a"),
        ("Impersonate-Extra-scopes", "b"),
        ("Impersonate-Extra-x%2Fy", "z"),
    )
    given = read(path, as_user="eve", as_group=("h", "i"), as_user_extra=("k=v",))
    assert given.impersonation == (
        ("Impersonate-User", "eve"),
        ("Impersonate-Group", "h"),
        ("Impersonate-Group", "i"),
        ("Impersonate-Extra-k", "v"),
    )
    for bad in ({"as_group": ("g",)}, {"as_uid": "7"}, {"as_user": "e", "as_user_extra": ("k",)}):
        with pytest.raises(KubeConfigError, match="--as"):
            read(path, **bad)


@pytest.mark.parametrize("version", [V1, "client.authentication.k8s.io/v1beta1"])
def test_an_exec_plugin_gives_the_token(tmp_path: Path, version: str) -> None:
    user = plugin(tmp_path, exec_credential(version, token="from-plugin"), version)
    assert read(write(tmp_path, user)).authorization == "Bearer from-plugin"


def test_an_exec_plugin_gives_a_client_certificate(tmp_path: Path) -> None:
    status = {"clientCertificateData": CERTIFICATE, "clientKeyData": KEY}
    reading = read(write(tmp_path, plugin(tmp_path, exec_credential(**status))))
    assert reading.authorization is None
    tls_context(reading, "test")


def test_an_exec_plugin_is_told_of_the_cluster_and_gets_its_variables(tmp_path: Path) -> None:
    program(
        tmp_path,
        "import json, os, sys\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "told = [info, os.environ['REGION'], sys.argv[1]]\n"
        "token = json.dumps(told).encode().hex()\n"
        f"print(json.dumps({{'apiVersion': {V1!r}, 'kind': 'ExecCredential',"
        " 'status': {'token': token}}))",
    )
    cluster: dict[str, object] = {
        "certificate-authority-data": in_base64(CERTIFICATE),
        "tls-server-name": "other",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"aud": "x"}}],
    }
    user = {
        "apiVersion": V1,
        # From the kubeconfig's folder, as client-go has it.
        "command": "./plugin",
        "args": ["get-token"],
        "env": [{"name": "REGION", "value": "eu"}],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    reading = read(write(tmp_path, {"exec": user}, cluster))
    told = bytes.fromhex(str(reading.authorization).removeprefix("Bearer "))
    info, region, argument = json.loads(told)
    assert (region, argument) == ("eu", "get-token")
    assert (info["apiVersion"], info["kind"]) == (V1, "ExecCredential")
    assert info["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://one:6443",
            "certificate-authority-data": in_base64(CERTIFICATE),
            "tls-server-name": "other",
            "config": {"aud": "x"},
        },
    }


def test_a_plugin_without_a_path_is_found_on_the_path(tmp_path: Path) -> None:
    plugin(tmp_path, exec_credential(token="t"))
    path = write(tmp_path, {"exec": {"apiVersion": V1, "command": "plugin"}})
    environ = {**NOWHERE, "PATH": str(tmp_path)}
    assert read(path, environ).authorization == "Bearer t"


def test_a_token_makes_the_plugin_unnecessary(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": V1, "command": "/nonexistent"}}
    assert read(write(tmp_path, user), token="t").authorization == "Bearer t"
    assert read(write(tmp_path, user | {"token": "u"})).authorization == "Bearer u"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"command": "no-such-plugin", "installHint": "get it\nthere"},
            "No such file.*; get it th",
        ),
        ({"command": "false"}, "failed with exit code 1"),
        ({"command": "true"}, "gave no ExecCredential"),
        ({"command": "true", "apiVersion": "client.authentication.k8s.io/v1alpha1"}, "v1alpha1"),
        ({"command": "true", "interactiveMode": "Always"}, "needs a terminal"),
        ({"command": "true", "interactiveMode": "Maybe"}, "'Maybe' is not known"),
        ({"command": "true", "env": [{}]}, "env has an entry without a name"),
    ],
)
def test_what_is_wrong_with_a_plugin_is_said(
    tmp_path: Path, fields: dict[str, Any], told: str
) -> None:
    path = write(tmp_path, {"exec": {"apiVersion": V1, **fields}})
    with pytest.raises(KubeConfigError, match=f"user u.exec: .*{told}"):
        read(path, {**NOWHERE, "PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (exec_credential(), "neither a token nor a client certificate"),
        (exec_credential(clientCertificateData=CERTIFICATE), "without its key"),
        (exec_credential("client.authentication.k8s.io/v1beta1", token="t"), "v1beta1, not"),
    ],
)
def test_what_is_wrong_with_its_answer_is_said(tmp_path: Path, answer: str, told: str) -> None:
    with pytest.raises(KubeConfigError, match=told):
        read(write(tmp_path, plugin(tmp_path, answer)))


def test_an_oidc_provider_serves_while_its_token_is_good(tmp_path: Path) -> None:
    def user(seconds: int) -> dict[str, Any]:
        return {"auth-provider": {"name": "oidc", "config": {"id-token": token_until(seconds)}}}

    good = token_until(99999999999)
    assert read(write(tmp_path, user(99999999999))).authorization == f"Bearer {good}"
    for old in (user(1), {"auth-provider": {"name": "oidc"}}):
        with pytest.raises(KubeConfigError, match=r"expired.*kubectl version.*kubelogin"):
            read(write(tmp_path, old))


def test_a_provider_that_kubectl_dropped_is_told_with_its_successor(tmp_path: Path) -> None:
    with pytest.raises(KubeConfigError, match=r"auth-provider gcp .*gke-gcloud-auth-plugin"):
        read(write(tmp_path, {"auth-provider": {"name": "gcp"}}))


def test_in_a_pod_the_service_account_serves_unless_there_is_a_kubeconfig(tmp_path: Path) -> None:
    for name, text in (("token", "mounted\n"), ("ca.crt", CERTIFICATE), ("namespace", "team\n")):
        (tmp_path / name).write_text(text)
    pod = {
        "HOME": str(tmp_path / "home"),
        "KUBERNETES_SERVICE_HOST": "fd00::1",
        "KUBERNETES_SERVICE_PORT": "443",
    }
    inside = Configured(ApiAccess(as_user="bob"), environ=pod, service_account=tmp_path)
    reading = inside.reading()
    assert (reading.server, reading.authorization) == ("https://[fd00::1]:443", "Bearer mounted")
    assert reading.impersonation == (("Impersonate-User", "bob"),)
    assert reading.valid_s == REREAD_S  # kubelet renews the token in its file
    assert inside.namespace() == "team"
    assert (
        Configured(ApiAccess(namespace="n"), environ=pod, service_account=tmp_path).namespace()
        == "n"
    )
    (tmp_path / "home").mkdir()
    write(tmp_path / "home" / ".kube", {"token": "home"})
    own = Configured(ApiAccess(), environ=pod, service_account=tmp_path)
    assert own.reading().authorization == "Bearer home"


def test_a_pod_without_its_token_is_told(tmp_path: Path) -> None:
    pod = {"HOME": "/nonexistent", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    inside = Configured(ApiAccess(), environ=pod, service_account=tmp_path)
    assert inside.namespace() == "default"
    with pytest.raises(KubeConfigError, match=r"service account .*token"):
        inside.reading()


def test_where_nothing_is_configured_the_user_learns_where_to_put_it() -> None:
    with pytest.raises(KubeConfigError, match=r"names no server.*\$KUBECONFIG"):
        Configured(ApiAccess(), environ=NOWHERE).reading()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"context": "other"}, r"context 'other' does not exist \(there are: ctx\)"),
        ({"cluster": "other"}, r"cluster 'other' does not exist \(there are: c\)"),
        ({"user": "other"}, r"user 'other' does not exist \(there are: u\)"),
        ({"kubeconfig": "/nonexistent"}, "kubeconfig /nonexistent: no such file"),
        ({"kubeconfig": "/"}, "kubeconfig /: Is a directory"),
        ({"client_key": "/nonexistent"}, "client-key /nonexistent: No such file"),
    ],
)
def test_what_the_user_named_and_is_not_there_is_named_again(
    tmp_path: Path, options: dict[str, Any], told: str
) -> None:
    given = {"kubeconfig": write(tmp_path, {"token": "t"}), **options}
    with pytest.raises(KubeConfigError, match=told):
        Configured(ApiAccess(**given), environ=NOWHERE).reading()


@pytest.mark.parametrize(
    "text", ["[]", "just text", "contexts: 3\n", "contexts: [3]\n", "users: [{user: {}}]\n"]
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(KubeConfigError, match=f"kubeconfig {path}: "):
        read(str(path))


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_file_that_nobody_should_read_is_refused(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(KubeConfigError, match="kubeconfig "):
        read(str(path))


@pytest.mark.parametrize(
    ("user", "cluster", "told"),
    [
        ({"token": "t"}, {"server": ""}, "names no server"),
        ({"token": "t"}, {"server": "one:6443"}, "not an https:// URL"),
        ({"token": 3}, {}, "user u: token is not a string"),
        ({"token": "a b"}, {}, "not one line without spaces"),
        ([], {}, "user is not a mapping"),
        ({"token": "t"}, {"certificate-authority": "absent"}, "certificate-authority .*absent"),
        ({"token": "t"}, {"certificate-authority-data": "%%%"}, "is not base64"),
        (
            {"token": "t"},
            {"certificate-authority-data": in_base64("x")},
            "unusable certificate or key",
        ),
        ({"client-certificate-data": in_base64(CERTIFICATE)}, {}, "without the key"),
        ({"client-key-data": in_base64(KEY)}, {}, "without the certificate"),
        (PAIR | {"client-key-data": in_base64(pem_pair()[1])}, {}, "unusable certificate or key"),
        ({"tokenFile": "absent"}, {}, "tokenFile .*absent"),
    ],
)
def test_what_is_wrong_in_a_kubeconfig_is_said(
    tmp_path: Path, user: object, cluster: dict[str, object], told: str
) -> None:
    path = write(tmp_path, user, cluster)
    with pytest.raises(KubeConfigError, match=told):
        tls_context(read(path), "test")
