"""Pods and nodes as a server would write them, with only what a test is about."""

from typing import Any

import msgspec

from kubeshare_py.domain.pod import Pod
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields


def pod_fields(
    spec: dict[str, Any] | None = None,
    *,
    status: dict[str, Any] | None = None,
    **metadata: Any,
) -> PodFields:
    written = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", **metadata},
        "spec": {"containers": [{"name": "main"}], **(spec or {})},
        "status": {"phase": "Pending", **(status or {})},
    }
    return msgspec.json.decode(msgspec.json.encode(written), type=PodFields)


def pod(
    spec: dict[str, Any] | None = None, *, status: dict[str, Any] | None = None, **metadata: Any
) -> Pod:
    return to_domain(pod_fields(spec, status=status, **metadata))


def container(name: str = "main", **requests: str) -> dict[str, Any]:
    """A container asking for these; underscores in a name stand for hyphens."""
    return {"name": name, "resources": {"requests": _hyphens(requests)}}


def sidecar(name: str = "side", **requests: str) -> dict[str, Any]:
    return container(name, **requests) | {"restartPolicy": "Always"}


def _hyphens(names: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in names.items()}
