"""Credentials of clients: certificates and their authority, `--as`, kubeconfig files."""

import base64
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import yaml
from aiohttp import web
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from multidict import CIMultiDictProxy

from kubeshare_py.edges.kube.certificates import VALID, Authority, make_authority, write_private
from kubeshare_py.embedded_cluster.protocol.messages import ADMIN_GROUPS, RequestUser
from kubeshare_py.embedded_cluster.protocol.status import StatusSubject, forbidden

# Certificates of clients, and the authority that signs them: for the embedded cluster and tests.
#
# The common name is the user, organizations are the groups, as Kubernetes reads them:
# https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates
#
# `trustme` makes no such certificates: its subjects have one organization each, always.


@dataclass(frozen=True, slots=True)
class ClientAuthority:
    """Signs certificates of clients."""

    authority: Authority

    def pem(self) -> str:
        """Its certificate."""
        return self.authority.pem()

    def write_client(
        self, path: Path, user: str, groups: tuple[str, ...] = (), valid: timedelta = VALID
    ) -> Path:
        """A certificate and its key in one file that only its owner may read."""
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
                x509.NameAttribute(NameOID.COMMON_NAME, user),
            ]
        )
        pair = self.authority.issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, valid)
        return write_private(path, "".join(pair))


def make_client_authority(name: str) -> ClientAuthority:
    """A new authority with this common name."""
    return ClientAuthority(make_authority(name))


# Users of the embedded API server besides bearer tokens: client certificates and `--as`.
#
# https://kubernetes.io/docs/reference/access-authn-authz/authentication/


AUTHENTICATED = ADMIN_GROUPS[1]
_MASTERS = ADMIN_GROUPS[0]


def certified(request: web.Request) -> RequestUser | None:
    """The user of a client certificate, which TLS has verified."""
    tls = request.get_extra_info("ssl_object")
    shown = tls.getpeercert(binary_form=True) if tls is not None else None
    if not shown:
        return None
    subject = x509.load_der_x509_certificate(shown).subject
    names = [str(one.value) for one in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    if not names:
        return None
    return RequestUser(name=names[0], groups=(*(str(one.value) for one in groups), AUTHENTICATED))


def impersonated(user: RequestUser, headers: CIMultiDictProxy[str]) -> RequestUser:
    """The user that an administrator impersonates. Raises Refusal for other users."""
    name = headers.get("Impersonate-User", "")
    if not name:
        return user
    if _MASTERS not in user.groups:
        why = f'User "{user.name}" cannot impersonate resource "users" in API group ""'
        raise forbidden(StatusSubject("users", name, ""), f"{why} at the cluster scope")
    groups = headers.getall("Impersonate-Group", [])
    return RequestUser(name=name, groups=(*groups, AUTHENTICATED))


# Writing kubeconfig files for the embedded cluster.


def kubeconfig_text(url: str, authority: bytes, user: str, token: str) -> str:
    """One cluster, one user with a bearer token, one context `kubeshare`."""
    return _text(url, authority, user, {"token": token})


def certificate_kubeconfig_text(url: str, authority: bytes, user: str, pair: Path) -> str:
    """The same for a user with a certificate; `pair` is a file of certificate and key."""
    encoded = base64.b64encode(pair.read_bytes()).decode()
    shown = {"client-certificate-data": encoded, "client-key-data": encoded}
    return _text(url, authority, user, shown)


def _text(url: str, authority: bytes, user: str, credentials: dict[str, str]) -> str:
    encoded = base64.b64encode(authority).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "kubeshare",
                    "cluster": {"server": url, "certificate-authority-data": encoded},
                }
            ],
            "users": [{"name": user, "user": credentials}],
            "contexts": [
                {
                    "name": "kubeshare",
                    "context": {"cluster": "kubeshare", "user": user, "namespace": "default"},
                }
            ],
            "current-context": "kubeshare",
        }
    )
