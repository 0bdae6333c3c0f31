"""The namespace that a user means without naming one: that of the kubeconfig's context."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from kubernetes import config as kubernetes_config
from kubernetes.config import kube_config

from kubeshare_py.edges.kube_config import SERVICE_ACCOUNT

DEFAULT = "default"

# The package has no annotations.
_files: Any = kube_config


def default_namespace(
    kubeconfig: str | None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> str:
    """Look where `kube_config.load` looks; `default` where nothing is said or can be read."""
    paths = kubeconfig or environ.get("KUBECONFIG")
    if not paths and environ.get("KUBERNETES_SERVICE_HOST"):
        try:
            return (service_account / "namespace").read_text().strip() or DEFAULT
        except OSError:
            return DEFAULT
    try:
        merged = _files.KubeConfigMerger(
            paths or str(Path(environ.get("HOME") or Path.home()) / ".kube" / "config")
        ).config
        return _namespace(merged.value, context) or DEFAULT
    except (kubernetes_config.ConfigException, OSError, yaml.YAMLError):
        return DEFAULT
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
        # Not a kubeconfig: whoever needs credentials from it says so.
        return DEFAULT


def _namespace(merged: Mapping[str, Any], context: str | None) -> str | None:
    wanted = context or merged.get("current-context")
    for entry in merged["contexts"]:
        if entry.value["name"] == wanted:
            namespace = entry.value["context"].get("namespace")
            return str(namespace) if namespace else None
    return None
