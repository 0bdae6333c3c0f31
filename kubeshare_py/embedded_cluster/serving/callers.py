"""Users of the embedded API server besides bearer tokens: client certificates and `--as`.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/
"""

from aiohttp import web
from cryptography import x509
from cryptography.x509.oid import NameOID
from multidict import CIMultiDictProxy

from kubeshare_py.embedded_cluster.protocol.messages import ADMIN_GROUPS, RequestUser
from kubeshare_py.embedded_cluster.protocol.status import StatusSubject, forbidden

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
