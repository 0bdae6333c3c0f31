"""What the scheduler's account may do on a real control plane, for other values of the chart.

The role and the limits that are installed there are those of the default profile's dialects.
"""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from kubeshare_py.dialects.dialect import Dialect
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from tests.controlplane.build import build
from tests.controlplane.helm import PLAIN_FOR, template
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json, shipped, token_policies, write

_NOTICED_S = 60.0
_FORBIDDEN = 403


@contextmanager
def limits_with(dialect: Dialect, plane: ControlPlane | None, folder: Path) -> Iterator[None]:
    """While entered, it may write this dialect's annotations, and read what the dialect needs.

    Both are as by the chart for a profile with it. See `limits_of`.
    """
    names = [{"name": one.name} for one in (SHAREDGPU, dialect)]
    profiles = [{"schedulerName": "kubeshare-scheduler", "dialects": names}]
    with limits_of({"config": {"profiles": profiles}}, dialect, plane, folder):
        yield


@contextmanager
def limits_of(
    values: Json, dialect: Dialect, plane: ControlPlane | None, folder: Path
) -> Iterator[None]:
    """While entered, it may do what the chart with these values lets it; they enable `dialect`.

    Nothing is to be done without a real one. Raises processes.NotReady if the API server does not
    notice.
    """
    if plane is None:
        yield
        return
    build(["helm"])
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    text = template("--values", file, kubernetes=PLAIN_FOR)
    wider = [one for one in yaml.safe_load_all(text) if one]
    plane.update(write(_limits(wider), folder / "wider.yaml"))
    key = min(dialect.result_keys.scheduler)
    plane.server.wait_until(lambda: _may_write(plane, key), _NOTICED_S)
    try:
        yield
    finally:
        plane.update(write(_limits(shipped()), folder / "shipped.yaml"))


def _limits(objects: list[Json]) -> list[Json]:
    """Those that depend on dialects and profiles: the role and the policies."""
    role = ("ClusterRole", "kubeshare-scheduler")
    return [
        *(one for one in objects if (one["kind"], one["metadata"]["name"]) == role),
        *token_policies(objects),
    ]


def _may_write(plane: ControlPlane, key: str) -> bool:
    """Whether a Binding with this annotation is not forbidden; its pod is not there."""
    annotations = {"sharedgpu/allocation": "{}", key: ""}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "absent", "annotations": annotations},
        "target": {"kind": "Node", "name": "n1"},
    }
    request = urllib.request.Request(
        f"{plane.url}/api/v1/namespaces/default/pods/absent/binding?dryRun=All",
        json.dumps(binding).encode(),
        {
            "Authorization": f"Bearer {plane.secrets.tokens[SCHEDULER]}",
            "Content-Type": "application/json",
        },
    )
    context = ssl.create_default_context(cafile=str(plane.secrets.certificates.ca_file))
    try:
        with urllib.request.urlopen(request, context=context):
            return True
    except urllib.error.HTTPError as error:
        return error.code != _FORBIDDEN
