"""Record what releases of kube-apiserver answer to lists.

    python -m tests.controlplane.record_lists v1.33.13 v1.34.4 v1.35.4 v1.36.3

Each is built from source once, in a folder beside the control plane's, and runs on that one's etcd.
The answers are written to tests/manifests/recorded_lists/<release>.json: the text as it came, by a
name that says what was listed and in which form.
"""

import json
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from kubeshare_py.embedded_cluster.serving.server import ADMIN
from tests.controlplane.build import build, folder, kubernetes_version
from tests.controlplane.repin import server_module
from tests.controlplane.running import ControlPlane, control_plane

SHAREPOD_DEFINITION = Path(__file__).parents[2] / "deploy/chart/kubeshare/sharepod-crd.yaml"
RECORDED = Path(__file__).parents[1] / "manifests/recorded_lists"
FORMS = {
    "whole": "application/json",
    "names": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
    "table": "application/json;as=Table;g=meta.k8s.io;v=v1,application/json",
}
PODS = "/api/v1/namespaces/recorded/pods"
SHAREPODS = "/apis/kubeshare.nthu/v1/namespaces/recorded/sharepods"
POD_SPEC = {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False}
_BUILT = "kube-apiserver"


class _Admin:
    """What an administrator writes and reads, as bytes."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        authority = str(plane.secrets.certificates.ca_file)
        self._context = ssl.create_default_context(cafile=authority)

    def get(self, path: str, accept: str) -> bytes:
        return self._answer(path, None, {"Accept": accept})

    def post(self, path: str, body: dict[str, Any]) -> None:
        self._answer(path, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _answer(self, path: str, data: bytes | None, headers: dict[str, str]) -> bytes:
        headers["Authorization"] = f"Bearer {self._plane.secrets.tokens[ADMIN]}"
        request = urllib.request.Request(self._plane.url + path, data, headers)
        with urllib.request.urlopen(request, timeout=30.0, context=self._context) as answer:
            body: bytes = answer.read()
            return body


def _server(release: str) -> Path:
    """The folder with this release's kube-apiserver, built if it is not there."""
    kept = folder().with_name(release)
    if not (kept / _BUILT).exists():
        module = kept / "module"
        module.mkdir(parents=True, exist_ok=True)
        server_module(release, module)
        print(f"building {_BUILT} {release} ...", file=sys.stderr, flush=True)
        environment = {**os.environ, "CGO_ENABLED": "0"}
        version = f"-s -w -X k8s.io/component-base/version.gitVersion={release}"
        command = ["go", "build", "-ldflags", version, "-o", str(kept / _BUILT)]
        command.append("k8s.io/kubernetes/cmd/kube-apiserver")
        subprocess.run(command, cwd=module, env=environment, check=True)
    return kept


def _lists(admin: _Admin) -> dict[str, str]:
    """What is answered to each list, by resource, form and fill."""
    found: dict[str, str] = {}

    def record(what: str, query: str = "") -> None:
        for resource, path in (("pods", PODS), ("sharepods", SHAREPODS)):
            for form, accept in FORMS.items():
                body = admin.get(path + query, accept)
                found[f"{resource}, {form}, {what}"] = body.decode()

    record("empty")
    record("empty page", "?limit=2&labelSelector=no%3Dsuch")
    for name in ("a", "b", "c"):
        metadata = {"name": name, "labels": {"app": "x"}}
        admin.post(PODS, {"kind": "Pod", "metadata": metadata, "spec": POD_SPEC})
        share = {"apiVersion": "kubeshare.nthu/v1", "kind": "SharePod", "metadata": metadata}
        admin.post(SHAREPODS, {**share, "spec": POD_SPEC})
    record("three")
    record("first page of three", "?limit=2&labelSelector=app%3Dx")
    return found


def record(release: str) -> None:
    """Write the file of this release. Raises CalledProcessError, OSError, processes.NotReady."""
    ours = build(("etcd", "kubectl"))
    servers = ours if release == kubernetes_version() else _server(release)
    with tempfile.TemporaryDirectory() as scratch:
        binaries, logs = Path(scratch, "bin"), Path(scratch, "logs")
        for made in (binaries, logs):
            made.mkdir()
        for name, where in (("etcd", ours), ("kubectl", ours), (_BUILT, servers)):
            (binaries / name).symlink_to(where / name)
        running = control_plane(
            binaries, logs, controllers=False, identity=False, not_admitted_by=["ServiceAccount"]
        )
        with running as plane:
            admin = _Admin(plane)
            admin.post("/api/v1/namespaces", {"metadata": {"name": "recorded"}})
            definition = yaml.safe_load(SHAREPOD_DEFINITION.read_text())
            admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
            plane.server.wait_until(lambda: plane.has(SHAREPODS), 60.0)
            lists = _lists(admin)
    RECORDED.mkdir(exist_ok=True)
    text = json.dumps(lists, indent=1, sort_keys=True, ensure_ascii=False)
    (RECORDED / f"{release}.json").write_text(text + "\n")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or [kubernetes_version()]:
        record(wanted)
