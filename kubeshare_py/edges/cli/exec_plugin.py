"""Credentials from a program in a kubeconfig (aws, gke-gcloud-auth-plugin, kubelogin …).

Protocol:
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

import datetime
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kubeshare_py.edges.cli.kubeconfig_file import Section
from kubeshare_py.edges.kube.credential_reading import KubeConfigError

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
