"""kube-scheduler as a process of a real control plane, with this scheduler as its extender."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.controlplane.build import build
from tests.controlplane.processes import process
from tests.controlplane.running import ControlPlane
from tests.stories.conftest import Json


@contextmanager
def kube_scheduler(plane: ControlPlane, folder: Path, configuration: Json) -> Iterator[None]:
    """Run it with this KubeSchedulerConfiguration; who it is, is added."""
    whole = {
        **configuration,
        "clientConnection": {"kubeconfig": str(plane.kubeconfig)},
        "leaderElection": {"leaderElect": False},
    }
    file = folder / "kube-scheduler.yaml"
    file.write_text(yaml.safe_dump(whole))
    binary = build(["kube-scheduler"]) / "kube-scheduler"
    flags = [f"--config={file}", "--secure-port=0"]
    with process([binary, *flags], folder / "kube-scheduler.log"):
        yield
