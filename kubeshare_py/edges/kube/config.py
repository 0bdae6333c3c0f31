"""Where credentials come from: a kubeconfig file or the service account of the pod we run in.

The `kubernetes` package reads the files (contexts, exec plugins, OIDC, certificates). Format:
https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/

It is imported when credentials are looked for: it is the largest package of all, and `make demo`
does without it.
"""

import contextlib
import datetime
import importlib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from kubeshare_py.documents.problems import DocumentProblem
from kubeshare_py.documents.yaml_text import read_yaml
from kubeshare_py.edges.kube.credential_reading import KubeConfigError, KubeReading
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.process.document_files import read_bytes

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: Seconds between readings of files: projected tokens and certificates are rotated in place.
REREAD_S = 60.0
#: Seconds before a token's known end at which it is replaced.
EXPIRY_MARGIN_S = 60.0


def _package() -> Any:
    """Import `kubernetes`, whose modules have no annotations. Raises KubeConfigError."""
    try:
        kubernetes = importlib.import_module("kubernetes")
        for module in ("config.exec_provider", "config.incluster_config", "config.kube_config"):
            importlib.import_module(f"kubernetes.{module}")
    except ModuleNotFoundError as error:
        raise KubeConfigError(
            f"the package {error.name} is not installed (make demo does without it): "
            "run make setup, or pip install kubeshare-py"
        ) from error
    return kubernetes


def load(
    kubeconfig: str | None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Credentials:
    """Find credentials: the given file, $KUBECONFIG, the service account, ~/.kube/config.

    Several files (separated by colons) are merged as kubectl does. Raises KubeConfigError.
    """
    if kubeconfig is None:
        kubeconfig = environ.get("KUBECONFIG") or None
    if kubeconfig is None and environ.get("KUBERNETES_SERVICE_HOST"):
        source = f"service account {service_account}"
        return Credentials(source, lambda: _read_in_cluster(service_account, environ))
    if kubeconfig is None:
        kubeconfig = str(Path(environ.get("HOME") or Path.home()) / ".kube" / "config")
    paths = kubeconfig
    return Credentials(f"kubeconfig {paths}", lambda: _read_kubeconfig(paths, context))


def _read_in_cluster(folder: Path, environ: Mapping[str, str]) -> KubeReading:
    source = f"service account {folder}"
    kubernetes = _package()
    configuration = kubernetes.client.Configuration()
    try:
        kubernetes.config.incluster_config.InClusterConfigLoader(
            token_filename=str(folder / "token"),
            cert_filename=str(folder / "ca.crt"),
            environ=environ,
        ).load_and_set(configuration)
        # The package uses the file as it is; a newline at its end would break the header.
        token = (folder / "token").read_text().strip()
        reading = _reading(configuration, source)
    except (kubernetes.config.ConfigException, OSError, ValueError) as error:
        raise KubeConfigError(f"{source}: {error}") from error
    return replace(reading, authorization=f"Bearer {token}", valid_s=REREAD_S)


def _read_kubeconfig(paths: str, context: str | None) -> KubeReading:
    """Read the file(s) anew: exec plugins run, token and certificate files are opened."""
    source = f"kubeconfig {paths}"
    if not any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep)):
        raise KubeConfigError(f"{source}: no such file")
    _check(paths)
    kubernetes = _package()
    configuration = kubernetes.client.Configuration()
    try:
        merger = kubernetes.config.kube_config.KubeConfigMerger(paths)
        if not isinstance(getattr(merger.config, "value", None), dict):
            raise KubeConfigError(f"{source}: nothing in it")
        with tempfile.TemporaryDirectory() as folder:
            loader = kubernetes.config.kube_config.KubeConfigLoader(
                merger.config,
                active_context=context,
                config_base_path=None,
                config_persister=_persister(merger),
                temp_file_path=folder,
            )
            loader.load_and_set(configuration)
            reading = _reading(configuration, source, getattr(loader, "token", None))
        user = _user(merger.config, loader.current_context)
        if "exec" in user and not (reading.authorization or reading.client_certificate):
            raise KubeConfigError(
                f"{source}: {_why_no_credentials(kubernetes, merger.config, user)}"
            )
    except (kubernetes.config.ConfigException, OSError, yaml.YAMLError) as error:
        raise KubeConfigError(f"{source}: {' '.join(str(error).split())}") from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise KubeConfigError(f"{source}: not a kubeconfig ({error})") from error
    return replace(reading, valid_s=_valid_s(getattr(loader, "expiry", None), user))


def _check(paths: str) -> None:
    """Read the files as the package will, but with limits, and with places in error messages.

    Raises KubeConfigError. A missing file is left to the package.
    """
    for path in paths.split(os.pathsep):
        try:
            read_yaml(read_bytes(Path(path).expanduser()), path)
        except DocumentProblem as problem:
            raise KubeConfigError(f"kubeconfig {problem}") from problem
        except FileNotFoundError:
            continue
        except OSError as error:
            raise KubeConfigError(f"kubeconfig {path}: {error.strerror}") from error


def _persister(merger: Any) -> Callable[[], None]:
    def save() -> None:
        # An OIDC refresh token may be valid only once; a read-only file serves until a restart.
        with contextlib.suppress(OSError):
            merger.save_changes()

    return save


def _user(merged: Any, current: Mapping[str, Any]) -> dict[str, Any]:
    """The user section of the chosen context, or an empty one."""
    wanted = current["context"].get("user")
    for entry in merged.value.get("users") or []:
        if entry.value["name"] == wanted:
            return dict(entry.value.get("user") or {})
    return {}


def _why_no_credentials(kubernetes: Any, merged: Any, user: Mapping[str, Any]) -> str:
    """Run the exec plugin once more: the package only logs why it gave nothing."""
    plugin = kubernetes.config.kube_config.ConfigNode("exec", user["exec"], merged.path)
    command = plugin.safe_get("command")
    try:
        status = kubernetes.config.exec_provider.ExecProvider(plugin, None).run()
    except (kubernetes.config.ConfigException, OSError, ValueError) as error:
        return f"exec plugin {command!r} failed: {error}"
    return f"exec plugin {command!r} gave only {sorted(status)}"


def _valid_s(expiry: datetime.datetime | None, user: Mapping[str, Any]) -> float | None:
    """Seconds until shortly before the token's end.

    A plugin's token without one holds until a 401.
    """
    if expiry is not None:
        left_s = (expiry - datetime.datetime.now(tz=datetime.UTC)).total_seconds()
        return left_s - EXPIRY_MARGIN_S
    return None if "exec" in user else REREAD_S


def _reading(configuration: Any, source: str, authorization: str | None = None) -> KubeReading:
    """Copy the package's result into memory, so that its temporary files may be removed."""
    server = str(configuration.host).rstrip("/")
    if not server.startswith(("http://", "https://")):
        raise KubeConfigError(f"{source}: server {server!r} is not an http:// or https:// URL")
    certificate = None
    if configuration.cert_file:
        if not configuration.key_file:
            raise KubeConfigError(f"{source}: client certificate without its key")
        parts = (configuration.cert_file, configuration.key_file)
        certificate = b"\n".join(Path(part).read_bytes() for part in parts)
    return KubeReading(
        server=server,
        authorization=None if authorization is None else authorization.strip(),
        ca=Path(configuration.ssl_ca_cert).read_text() if configuration.ssl_ca_cert else None,
        client_certificate=certificate,
        verify=bool(configuration.verify_ssl),
        server_hostname=configuration.tls_server_name,
        proxy=configuration.proxy,
    )
