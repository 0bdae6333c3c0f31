"""The credentials in a user's section of a kubeconfig: certificates, tokens, impersonation."""

import base64
import binascii
import datetime
import json
from urllib.parse import quote

from kubeshare_py.edges.cli.kubeconfig_file import Section
from kubeshare_py.edges.kube.credential_reading import KubeConfigError

#: The end of a field whose content is in the file itself.
DATA = "-data"


def _read(section: Section, name: str) -> bytes | None:
    path = section.path(name)
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise KubeConfigError(
            f"{section.where}: {name} {path}: {error.strerror or error}"
        ) from error


def pem(section: Section, name: str) -> bytes | None:
    """A field's content: data in the file itself come before another file's, as in client-go.

    Raises KubeConfigError.
    """
    data = section.text(name + DATA)
    if not data:
        return _read(section, name)
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise KubeConfigError(f"{section.where}: {name}{DATA} is not base64 ({error})") from error


def certificate_pair(user: Section) -> bytes | None:
    """Certificate and key as PEM, None without. Raises KubeConfigError if one is missing."""
    certificate, key = pem(user, "client-certificate"), pem(user, "client-key")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "key" if key is None else "certificate"
        raise KubeConfigError(f"{user.where}: client certificate and key without the {missing}")
    return certificate + b"\n" + key


def token_of(user: Section) -> str:
    """The bearer token, "" without one: from its file, the section, or the provider.

    Raises KubeConfigError.
    """
    content = _read(user, "tokenFile")
    token = (
        user.text("token").strip() if content is None else content.decode(errors="replace").strip()
    )
    if not token and user.inner("auth-provider") is not None:
        return _provided(user)
    if not token.isascii() or not token.isprintable() or " " in token:
        raise KubeConfigError(f"{user.where}: its token is not one line without spaces")
    return token


def _provided(user: Section) -> str:
    """The ID token of the oidc provider while it is valid; renewing it is kubectl's work."""
    provider = user.inner("auth-provider")
    assert provider is not None
    name = provider.text("name")
    if name != "oidc":
        raise KubeConfigError(
            f"{user.where}: auth-provider {name} is not supported, nor by kubectl since 1.26: "
            "use an exec plugin (for gcp gke-gcloud-auth-plugin, for azure kubelogin)"
        )
    settings = provider.inner("config")
    token = settings.text("id-token") if settings else ""
    if not token or _ended(token):
        raise KubeConfigError(
            f"{user.where}: its ID token has expired; any command of kubectl with this user renews "
            "it (kubectl version), or use the exec plugin kubelogin"
        )
    return token


def _ended(token: str) -> bool:
    """Whether a JSON web token has expired; True for other texts."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        end = float(claims["exp"])
    except (ValueError, LookupError, TypeError):
        return True
    return datetime.datetime.now(tz=datetime.UTC).timestamp() >= end


def basic(user: Section) -> str | None:
    """The Authorization header of user and password, None without."""
    if not user.text("username"):
        return None
    pair = f"{user.text('username')}:{user.text('password')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def impersonation(user: Section) -> tuple[tuple[str, str], ...]:
    """The impersonation headers; keys of extra fields are percent-encoded as in client-go.

    Raises KubeConfigError.
    """
    headers = [("Impersonate-Uid", user.text("as-uid"))] if user.text("as-uid") else []
    headers += [("Impersonate-Group", group) for group in user.texts("as-groups")]
    extra = user.inner("as-user-extra")
    for key in extra.fields if extra else ():
        name = f"Impersonate-Extra-{quote(key.lower(), safe='')}"
        headers += [(name, value) for value in (extra.texts(key) if extra else ())]
    if headers and not user.text("as"):
        raise KubeConfigError(
            f"{user.where}: groups, uid or extra fields to impersonate, but no user (--as)"
        )
    return (("Impersonate-User", user.text("as")), *headers) if user.text("as") else ()
