"""From a kubeconfig and the command line to one API server's address and credentials.

The precedence is client-go's (k8s.io/client-go/tools/clientcmd/client_config.go): options of the
command line, then the context's cluster and user; a token before an exec plugin.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubeshare_py.edges.cli.access import ApiAccess
from kubeshare_py.edges.cli.exec_plugin import PluginCredentials, cluster_info, run_plugin
from kubeshare_py.edges.cli.kubeconfig_file import (
    Kubeconfig,
    Section,
    kubeconfig_paths,
    read_kubeconfig,
)
from kubeshare_py.edges.cli.kubeconfig_user import (
    DATA,
    basic,
    certificate_pair,
    impersonation,
    pem,
    token_of,
)
from kubeshare_py.edges.kube.credential_reading import KubeConfigError, KubeReading

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_NAMESPACE = "default"


class Configured:
    """The kubeconfig of one invocation, with options of the command line in its place."""

    def __init__(
        self,
        access: ApiAccess,
        *,
        environ: Mapping[str, str] = os.environ,
        service_account: Path = SERVICE_ACCOUNT,
    ) -> None:
        """Read the files; no program is run yet. Raises KubeConfigError."""
        self._access = access
        self._environ = environ
        self._account = service_account
        paths = kubeconfig_paths(access.kubeconfig, environ)
        explicit = bool(access.kubeconfig or access.context or access.cluster or access.user)
        found = read_kubeconfig(paths, must_exist=explicit)
        self._config = found or Kubeconfig(f"kubeconfig {paths[0]}")
        self._context = self._config.context(access.context)
        self._in_cluster = (
            self._context is None
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
        cluster, user = self._cluster(), self._user()
        server = cluster.text("server").rstrip("/")
        if not server:
            raise KubeConfigError(
                f"{self.source}: it names no server; is there a kubeconfig? "
                "(--kubeconfig, $KUBECONFIG or ~/.kube/config)"
            )
        if not server.startswith(("http://", "https://")):
            raise KubeConfigError(f"{self.source}: server {server!r} is not an https:// URL")
        authority = pem(cluster, "certificate-authority")
        ca = None if authority is None else authority.decode(errors="replace")
        plugin = self._plugin(user, cluster, server, ca)
        certificate = plugin.certificate or certificate_pair(user)
        token = plugin.token or token_of(user)
        return KubeReading(
            server=server,
            authorization=f"Bearer {token}" if token else basic(user),
            ca=ca,
            client_certificate=certificate,
            verify=not cluster.flag("insecure-skip-tls-verify"),
            server_hostname=cluster.text("tls-server-name") or None,
            proxy=cluster.text("proxy-url") or None,
            impersonation=impersonation(user),
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

    def _plugin(
        self, user: Section, cluster: Section, server: str, ca: str | None
    ) -> PluginCredentials:
        plugin = user.inner("exec")
        if plugin is None or token_of(user):
            return PluginCredentials()
        info = cluster_info(cluster, server, ca)
        return run_plugin(plugin, info, environ=self._environ)

    def _service_account(self) -> KubeReading:
        host, port = (
            self._environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT")
        )
        try:
            token = (self._account / "token").read_text().strip()
            ca = (self._account / "ca.crt").read_text()
        except (OSError, ValueError) as error:
            raise KubeConfigError(f"{self.source}: {error}") from error
        access = self._access
        return KubeReading(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port or 443}",
            authorization=f"Bearer {access.token or token}",
            ca=ca,
            impersonation=impersonation(self._user()),
        )


def kubeconfig_names(
    access: ApiAccess, kind: str, *, environ: Mapping[str, str] = os.environ
) -> list[str]:
    """The names of all contexts, clusters or users (`kind`), for completion."""
    try:
        paths = kubeconfig_paths(access.kubeconfig, environ)
        config = read_kubeconfig(paths, must_exist=False)
    except KubeConfigError:
        return []
    return sorted(getattr(config, f"{kind}s")) if config else []


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
