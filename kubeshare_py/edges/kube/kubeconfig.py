"""A kubeconfig file, read as kubectl reads it: the cluster, the user, and their credentials."""

import base64
import binascii
import datetime
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from kubeshare_py.documents.yaml_text import DocumentProblem, read_yaml
from kubeshare_py.edges.kube.errors import KubeConfigError
from kubeshare_py.edges.process.document_files import read_bytes

# The result of one reading of a kubeconfig or a service account, and its TLS context.


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeReading:
    """An API server's address, the trusted authority, and the credentials for it.

    `valid_s`: for how many seconds it may be used; None means until the server answers 401. `ca`
    and `client_certificate` (certificate and key) are PEM. `impersonation` are request headers:
    https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/
    """

    server: str
    authorization: str | None = field(default=None, repr=False)
    ca: str | None = None
    client_certificate: bytes | None = field(default=None, repr=False)
    verify: bool = True
    server_hostname: str | None = None
    proxy: str | None = field(default=None, repr=False)
    valid_s: float | None = None
    impersonation: tuple[tuple[str, str], ...] = ()


def tls_context(reading: KubeReading, source: str) -> ssl.SSLContext:
    """A context that trusts the reading's authority, or the system's if it names none.

    Raises KubeConfigError, naming `source`, for certificates and keys that OpenSSL refuses.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # On by default from Python 3.13, and many cluster CAs lack the extensions that it demands.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if not reading.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif reading.ca is None:
        context.load_default_certs()
    load_certificates(context, reading, source)
    return context


def load_certificates(context: ssl.SSLContext, reading: KubeReading, source: str) -> None:
    """Load CA and client certificate; on a context in use this affects new connections.

    Raises KubeConfigError.
    """
    try:
        if reading.ca is not None:
            context.load_verify_locations(cadata=reading.ca)
        if reading.client_certificate is not None:
            with tempfile.TemporaryDirectory(prefix="kubeshare-") as folder:
                pair = Path(folder) / "client.pem"
                pair.write_bytes(reading.client_certificate)
                # Without a password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(pair, password="")
    except (ssl.SSLError, ValueError) as error:
        raise KubeConfigError(f"{source}: unusable certificate or key ({error})") from error


# Kubeconfig files as kubectl reads them: several files merged, sections chosen by name.
#
# Rules: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/


_LISTS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_KINDS = {str: "a string", bool: "true or false", list: "a list", dict: "a mapping"}


@dataclass(frozen=True, slots=True)
class Section:
    """One cluster, user or context, and the folder that its relative paths start from."""

    where: str
    folder: Path
    fields: Mapping[str, Any]

    def text(self, name: str) -> str:
        """A string field, "" if it is absent; raises KubeConfigError for another type."""
        return str(self._typed(name, str) or "")

    def flag(self, name: str) -> bool:
        """A boolean field, False if it is absent."""
        return bool(self._typed(name, bool))

    def entries(self, name: str) -> list[Any]:
        """A list of anything, empty if it is absent."""
        return list(self._typed(name, list) or ())

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(map(str, self._typed(name, list) or ()))

    def inner(self, name: str) -> "Section | None":
        """A mapping inside this one, None if it is absent."""
        found = self._typed(name, dict)
        return None if found is None else Section(f"{self.where}.{name}", self.folder, found)

    def path(self, name: str) -> Path | None:
        """The file in a field, None if it is absent."""
        text = self.text(name)
        return self.folder / Path(text).expanduser() if text else None

    def with_fields(self, given: Mapping[str, Any]) -> "Section":
        """The section with options of the command line in place of its fields."""
        return Section(self.where, self.folder, {**self.fields, **given})

    def _typed(self, name: str, kind: type) -> Any:
        value = self.fields.get(name)
        if value is not None and not isinstance(value, kind):
            raise KubeConfigError(f"{self.where}: {name} is not {_KINDS[kind]}")
        return value


@dataclass(slots=True)
class Kubeconfig:
    """All files together: of two sections with one name, the first counts."""

    source: str
    current: str = ""
    clusters: dict[str, Section] = field(default_factory=dict)
    users: dict[str, Section] = field(default_factory=dict)
    contexts: dict[str, Section] = field(default_factory=dict)

    def context(self, name: str | None) -> Section | None:
        """The named context, or the current one; None if there is neither.

        Raises KubeConfigError for a context that does not exist.
        """
        wanted = name or self.current
        return self.section("contexts", wanted) if wanted else None

    def section(self, kind: str, name: str) -> Section:
        """A section by name; raises KubeConfigError, which lists the existing ones."""
        there: dict[str, Section] = getattr(self, kind)
        if name not in there:
            known = ", ".join(sorted(there)) or "none"
            raise KubeConfigError(
                f"{self.source}: {_LISTS[kind]} {name!r} does not exist (there are: {known})"
            )
        return there[name]


def kubeconfig_paths(given: str | None, environ: Mapping[str, str]) -> list[Path]:
    """The files to merge: the given one, $KUBECONFIG (a list), or ~/.kube/config."""
    if given:
        return [Path(given).expanduser()]
    listed = [part for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    home = environ.get("HOME") or str(Path.home())
    return [Path(part) for part in listed] or [Path(home) / ".kube" / "config"]


def read_kubeconfig(paths: list[Path], *, must_exist: bool) -> Kubeconfig | None:
    """Merge the files that exist; None if none does.

    Raises KubeConfigError for files that cannot be read, and with `must_exist` for absent ones.
    """
    config = Kubeconfig(f"kubeconfig {os.pathsep.join(map(str, paths))}")
    found = False
    for path in paths:
        try:
            text = read_bytes(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise KubeConfigError(f"kubeconfig {path}: {error.strerror or error}") from error
        found = True
        _merge(config, path, _decoded(path, text))
    if not found and must_exist:
        raise KubeConfigError(f"{config.source}: no such file")
    return config if found else None


def _decoded(path: Path, text: bytes) -> dict[str, Any]:
    try:
        document = read_yaml(text, f"kubeconfig {path}") if text.strip() else {}
    except DocumentProblem as problem:
        raise KubeConfigError(str(problem)) from problem
    if not isinstance(document, dict):
        raise KubeConfigError(f"kubeconfig {path}: not a kubeconfig")
    return document


def _merge(config: Kubeconfig, path: Path, document: Mapping[str, Any]) -> None:
    whole = Section(f"kubeconfig {path}", path.parent, document)
    config.current = config.current or whole.text("current-context")
    for kind, inside in _LISTS.items():
        there: dict[str, Section] = getattr(config, kind)
        for entry in whole.entries(kind):
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise KubeConfigError(f"{whole.where}: {kind} has an entry without a name")
            fields = Section(whole.where, path.parent, entry).inner(inside)
            where = f"{whole.where}: {inside} {entry['name']}"
            section = Section(where, path.parent, fields.fields if fields else {})
            there.setdefault(entry["name"], section)


# The credentials in a user's section of a kubeconfig: certificates, tokens, impersonation.


#: The end of a field whose content is in the file itself.
DATA = "-data"
OIDC = "oidc"


@dataclass(frozen=True, slots=True)
class ProvidedToken:
    """A bearer token ("" for none), and when it ends if that is known."""

    token: str = field(default="", repr=False)
    expires: datetime.datetime | None = None


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


def own_token(user: Section) -> str:
    """The bearer token, "" without one: from its file or the section.

    Raises KubeConfigError.
    """
    content = _read(user, "tokenFile")
    token = (
        user.text("token").strip() if content is None else content.decode(errors="replace").strip()
    )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise KubeConfigError(f"{user.where}: its token is not one line without spaces")
    return token


def valid_id_token(provider: Section) -> str:
    """The ID token of an oidc provider while it is valid, else ""."""
    settings = provider.inner("config") if provider.text("name") == OIDC else None
    token = settings.text("id-token") if settings else ""
    return "" if _ended(token) else token


def _why_no_token(provider: str) -> str:
    """What a command says that renews no tokens: that is kubectl's work."""
    if provider != OIDC:
        return (
            f"auth-provider {provider} is not supported, nor by kubectl since 1.26: "
            "use an exec plugin (for gcp gke-gcloud-auth-plugin, for azure kubelogin)"
        )
    return (
        "its ID token has expired; any command of kubectl with this user renews "
        "it (kubectl version), or use the exec plugin kubelogin"
    )


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


# Credentials from a program in a kubeconfig (aws, gke-gcloud-auth-plugin, kubelogin …).
#
# Protocol:
# https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins


VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
NEVER, IF_AVAILABLE, ALWAYS = "Never", "IfAvailable", "Always"
_EXTENSION = "client.authentication.k8s.io/exec"


class _ExecStatus(msgspec.Struct):
    token: str = ""
    client_certificate: str = msgspec.field(default="", name="clientCertificateData")
    client_key: str = msgspec.field(default="", name="clientKeyData")
    expires: datetime.datetime | None = msgspec.field(default=None, name="expirationTimestamp")


class _ExecCredential(msgspec.Struct):
    kind: str
    api_version: str = msgspec.field(name="apiVersion")
    status: _ExecStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCredentials:
    """A plugin's answer: a token, a certificate with its key (PEM), or both."""

    token: str = field(default="", repr=False)
    certificate: bytes | None = field(default=None, repr=False)
    expires: datetime.datetime | None = None


def run_plugin(
    plugin: Section, cluster: Mapping[str, Any], *, environ: Mapping[str, str]
) -> PluginCredentials:
    """Run the program and read its answer; its stderr is shown as it is.

    `cluster` is `spec.cluster` of the protocol, for plugins that request it. Raises
    KubeConfigError, with the plugin's own hint if the program is not installed.
    """
    version, command = plugin.text("apiVersion"), plugin.text("command")
    if version not in VERSIONS:
        raise KubeConfigError(
            f"{plugin.where}: apiVersion {version!r} is not one of {', '.join(VERSIONS)}"
        )
    interactive = _interactive(plugin)
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.flag("provideClusterInfo"):
        spec["cluster"] = cluster
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    try:
        done = subprocess.run(
            [_program(plugin, command, environ), *plugin.texts("args")],
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**environ, **_variables(plugin), "KUBERNETES_EXEC_INFO": json.dumps(info)},
            check=False,
        )
    except OSError as error:
        raise KubeConfigError(
            f"{plugin.where}: {command}: {error.strerror or error}{_hint(plugin)}"
        ) from error
    if done.returncode:
        raise KubeConfigError(
            f"{plugin.where}: {command} failed with exit code {done.returncode}{_hint(plugin)}"
        )
    return _credentials(f"{plugin.where}: {command}", done.stdout, version)


def cluster_info(cluster: Section, server: str, ca: str | None) -> dict[str, Any]:
    """`spec.cluster` of the protocol: the cluster, for the plugin."""
    info: dict[str, Any] = {"server": server}
    if ca is not None:
        info["certificate-authority-data"] = msgspec.to_builtins(ca.encode())
    for name in ("tls-server-name", "proxy-url"):
        if cluster.text(name):
            info[name] = cluster.text(name)
    for name in ("insecure-skip-tls-verify", "disable-compression"):
        if cluster.flag(name):
            info[name] = True
    for extension in cluster.entries("extensions"):
        if isinstance(extension, dict) and extension.get("name") == _EXTENSION:
            info["config"] = extension.get("extension")
    return info


def _interactive(plugin: Section) -> bool:
    """Whether the plugin gets the terminal."""
    mode = plugin.text("interactiveMode") or IF_AVAILABLE
    if mode not in (NEVER, IF_AVAILABLE, ALWAYS):
        raise KubeConfigError(f"{plugin.where}: interactiveMode {mode!r} is not known")
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    if mode == ALWAYS and not is_terminal:
        raise KubeConfigError(f"{plugin.where}: it needs a terminal (interactiveMode Always)")
    return mode != NEVER and is_terminal


def _program(plugin: Section, command: str, environ: Mapping[str, str]) -> str:
    """The path of the program.

    Bare names are searched on $PATH, others start from the kubeconfig.
    """
    if os.sep in command:
        return str(plugin.folder / command)
    return shutil.which(command, path=environ.get("PATH")) or command


def _variables(plugin: Section) -> dict[str, str]:
    variables = {}
    for one in plugin.entries("env"):
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise KubeConfigError(f"{plugin.where}: env has an entry without a name")
        variables[one["name"]] = str(one.get("value") or "")
    return variables


def _hint(plugin: Section) -> str:
    hint = " ".join(plugin.text("installHint").split())
    return f"; {hint}" if hint else ""


def _credentials(source: str, output: bytes, version: str) -> PluginCredentials:
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise KubeConfigError(f"{source} gave no ExecCredential: {error}") from error
    if (answer.kind, answer.api_version) != ("ExecCredential", version):
        raise KubeConfigError(f"{source} gave {answer.kind} {answer.api_version}, not {version}")
    status = answer.status or _ExecStatus()
    if bool(status.client_certificate) != bool(status.client_key):
        raise KubeConfigError(f"{source} gave a client certificate without its key or a key alone")
    if not status.token and not status.client_certificate:
        raise KubeConfigError(f"{source} gave neither a token nor a client certificate")
    pair = f"{status.client_certificate}\n{status.client_key}".encode()
    return PluginCredentials(
        token=status.token.strip(),
        certificate=pair if status.client_certificate else None,
        expires=status.expires,
    )


# kubectl's options about the way to an API server.


@dataclass(frozen=True, slots=True, kw_only=True)
class KubectlOptions:
    """All are optional. Names and meanings are kubectl's.

    `as_user_extra` are KEY=VALUE. `request_timeout` is in seconds, 0 for no limit.
    """

    kubeconfig: str | None = None
    context: str | None = None
    cluster: str | None = None
    user: str | None = None
    server: str | None = None
    namespace: str | None = None
    token: str | None = field(default=None, repr=False)
    as_user: str | None = None
    as_group: tuple[str, ...] = ()
    as_uid: str | None = None
    as_user_extra: tuple[str, ...] = ()
    certificate_authority: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    request_timeout: float | None = None


# From a kubeconfig and the command line to one API server's address and credentials.
#
# The precedence is client-go's (k8s.io/client-go/tools/clientcmd/client_config.go): options of the
# command line, then the context's cluster and user; a token before an exec plugin.


SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_NAMESPACE = "default"
#: Seconds between readings of files: projected tokens and certificates are rotated in place.
REREAD_S = 60.0
#: Seconds before a token's known end at which it is replaced.
EXPIRY_MARGIN_S = 60.0


def service_account_reading(folder: Path, environ: Mapping[str, str]) -> KubeReading:
    """The API server of the cluster that this pod runs in, and the pod's own token for it.

    kubelet puts both into every container, and renews the token in its file:
    https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/#directly-accessing-the-rest-api
    Raises KubeConfigError.
    """
    host, port = (environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    try:
        token = (folder / "token").read_text().strip()
        ca = (folder / "ca.crt").read_text()
    except (OSError, ValueError) as error:
        raise KubeConfigError(f"service account {folder}: {error}") from error
    if not token:
        raise KubeConfigError(f"service account {folder}: its token is empty")
    return KubeReading(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port or 443}",
        authorization=f"Bearer {token}",
        ca=ca,
        valid_s=REREAD_S,
    )


class Configured:
    """The kubeconfig of one invocation, with options of the command line in its place."""

    def __init__(
        self,
        access: KubectlOptions,
        *,
        environ: Mapping[str, str] = os.environ,
        service_account: Path = SERVICE_ACCOUNT,
        files: Sequence[Path] = (),
        provided: Callable[[], ProvidedToken] | None = None,
    ) -> None:
        """Read the files; no program is run yet. Raises KubeConfigError.

        `files`: these and no others, wherever the process runs. `provided` gets the token of an
        auth-provider, and raises KubeConfigError; without it, only an ID token that is still valid
        can be used.
        """
        self._access = access
        self._environ = environ
        self._account = service_account
        self._provided = provided
        paths = [*files] or kubeconfig_paths(access.kubeconfig, environ)
        explicit = bool(
            files or access.kubeconfig or access.context or access.cluster or access.user
        )
        found = read_kubeconfig(paths, must_exist=explicit)
        self._config = found or Kubeconfig(f"kubeconfig {paths[0]}")
        self._context = self._config.context(access.context)
        self._in_cluster = (
            self._context is None
            and not files
            and not access.server
            and not access.cluster
            and bool(environ.get("KUBERNETES_SERVICE_HOST"))
        )

    @property
    def source(self) -> str:
        """The origin of the configuration, as words."""
        return f"service account {self._account}" if self._in_cluster else self._config.source

    def namespace(self) -> str:
        """The namespace that the user means: -n, the context's, or the pod's own."""
        if self._access.namespace:
            return self._access.namespace
        if self._in_cluster:
            try:
                return (self._account / "namespace").read_text().strip() or DEFAULT_NAMESPACE
            except OSError:
                return DEFAULT_NAMESPACE
        named = self._context.text("namespace") if self._context else ""
        return named or DEFAULT_NAMESPACE

    def reading(self) -> KubeReading:
        """Open token and certificate files and run the exec plugin. Raises KubeConfigError."""
        if self._in_cluster:
            return self._service_account()
        place, cluster, user = self.location(), self._cluster(), self._user()
        given = self._token(user)
        plugin = PluginCredentials()
        if not given.token and (program := user.inner("exec")) is not None:
            info = cluster_info(cluster, place.server, place.ca)
            plugin = run_plugin(program, info, environ=self._environ)
            given = ProvidedToken(plugin.token, plugin.expires)
        certificate = plugin.certificate or certificate_pair(user)
        return replace(
            place,
            authorization=f"Bearer {given.token}" if given.token else basic(user),
            client_certificate=certificate,
            valid_s=_valid_s(given.expires, from_plugin=plugin != PluginCredentials()),
            impersonation=impersonation(user),
        )

    def location(self) -> KubeReading:
        """The API server's address and authority, without credentials. Raises KubeConfigError."""
        if self._in_cluster:
            return replace(self._service_account(), authorization=None, valid_s=REREAD_S)
        cluster = self._cluster()
        server = cluster.text("server").rstrip("/")
        if not server and self._context is None and self._config.contexts:
            known = ", ".join(sorted(self._config.contexts))
            raise KubeConfigError(f"{self.source}: it has no current-context (there are: {known})")
        if not server:
            raise KubeConfigError(
                f"{self.source}: it names no server; is there a kubeconfig? "
                "(--kubeconfig, $KUBECONFIG or ~/.kube/config)"
            )
        if not server.startswith(("http://", "https://")):
            raise KubeConfigError(f"{self.source}: server {server!r} is not an https:// URL")
        authority = pem(cluster, "certificate-authority")
        return KubeReading(
            server=server,
            ca=None if authority is None else authority.decode(errors="replace"),
            verify=not cluster.flag("insecure-skip-tls-verify"),
            server_hostname=cluster.text("tls-server-name") or None,
            proxy=cluster.text("proxy-url") or None,
        )

    def _cluster(self) -> Section:
        access = self._access
        name = access.cluster or (self._context.text("cluster") if self._context else "")
        section = self._config.section("clusters", name) if name else self._nothing()
        given: dict[str, Any] = {
            "server": access.server,
            "tls-server-name": access.tls_server_name,
            "insecure-skip-tls-verify": access.insecure_skip_tls_verify,
        }
        if access.certificate_authority:
            given |= {"certificate-authority": _absolute(access.certificate_authority)}
            section = _without(section, "certificate-authority-data")
        return section.with_fields({key: value for key, value in given.items() if value})

    def _user(self) -> Section:
        access = self._access
        name = access.user or (self._context.text("user") if self._context else "")
        section = self._config.section("users", name) if name else self._nothing()
        given: dict[str, Any] = {}
        if access.token:
            given["token"] = access.token
            section = _without(section, "tokenFile", "exec", "auth-provider")
        for option, key in (
            (access.client_certificate, "client-certificate"),
            (access.client_key, "client-key"),
        ):
            if option:
                given[key] = _absolute(option)
                section = _without(section, key + DATA)
        if access.as_user is not None or access.as_group or access.as_uid or access.as_user_extra:
            # As in kubectl: with --as, the file's impersonation does not count.
            section = _without(section, "as", "as-groups", "as-uid", "as-user-extra")
            given |= {"as": access.as_user or "", "as-groups": [*access.as_group]}
            given |= {"as-uid": access.as_uid or "", "as-user-extra": _extra(access.as_user_extra)}
        return section.with_fields(given)

    def _nothing(self) -> Section:
        return Section(self._config.source, Path(), {})

    def _token(self, user: Section) -> ProvidedToken:
        """The user's bearer token without its exec plugin, "" for none."""
        token = own_token(user)
        provider = None if token else user.inner("auth-provider")
        if provider is None:
            return ProvidedToken(token)
        if id_token := valid_id_token(provider):
            return ProvidedToken(id_token)
        name = provider.text("name")
        if self._provided is None:
            raise KubeConfigError(f"{user.where}: {_why_no_token(name)}")
        try:
            given = self._provided()
        except KubeConfigError as error:
            raise KubeConfigError(
                f"{user.where}: auth-provider {name} gives no token ({error})"
            ) from error
        if not given.token or (name == OIDC and _ended(given.token)):
            raise KubeConfigError(f"{user.where}: auth-provider {name} gives no valid token")
        return given

    def _service_account(self) -> KubeReading:
        reading = service_account_reading(self._account, self._environ)
        given = self._access.token
        return replace(
            reading,
            authorization=f"Bearer {given}" if given else reading.authorization,
            impersonation=impersonation(self._user()),
        )


def kubeconfig_names(
    access: KubectlOptions, kind: str, *, environ: Mapping[str, str] = os.environ
) -> list[str]:
    """The names of all contexts, clusters or users (`kind`), for completion."""
    try:
        paths = kubeconfig_paths(access.kubeconfig, environ)
        config = read_kubeconfig(paths, must_exist=False)
    except KubeConfigError:
        return []
    return sorted(getattr(config, f"{kind}s")) if config else []


def _valid_s(expires: datetime.datetime | None, *, from_plugin: bool) -> float | None:
    """Seconds until shortly before the token's end.

    What a plugin gives without an end holds until a 401.
    """
    if expires is not None:
        left_s = (expires - datetime.datetime.now(tz=datetime.UTC)).total_seconds()
        return left_s - EXPIRY_MARGIN_S
    return None if from_plugin else REREAD_S


def _without(section: Section, *names: str) -> Section:
    kept = {key: value for key, value in section.fields.items() if key not in names}
    return Section(section.where, section.folder, kept)


def _absolute(path: str) -> str:
    """The absolute path; options are relative to the working folder, not to the kubeconfig."""
    return str(Path(path).expanduser().absolute())


def _extra(given: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise KubeConfigError(f"--as-user-extra {one!r} is not KEY=VALUE")
        found.setdefault(key, []).append(value)
    return found
