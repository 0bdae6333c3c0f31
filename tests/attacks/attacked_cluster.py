"""What is attacked: the rendered chart on a real control plane, its scheduler under its own role.

Nodes are objects with the annotation that collectors write; there are no kubelets.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from kubeshare_py.domain.values import replace
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import (
    SimulatedNode,
    node_object,
    read_cluster,
)
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from kubeshare_py.inventory.node_annotations import ANNOTATION, write_cards
from tests.controlplane.helm import NAMESPACE, template
from tests.controlplane.processes import Process, process
from tests.controlplane.running import ControlPlane, free_ports
from tests.controlplane.shipped import RUNTIME_CLASS, Json, parts_only_in, write

NAME = "kubeshare-scheduler"
#: Where mallory may edit; of `LAX` the policy asks nothing about labels, so that all of it arrives.
ATTACKER, LAX, VICTIM = "attacker", "lax", "victim"
#: Users, all with client certificates: `edit`, `admin` and `edit` again, and one without any right.
MALLORY, ADA, VICTOR, RITA = "mallory", "ada", "victor", "rita"
_ROLES = (
    (MALLORY, "edit", ATTACKER),
    (MALLORY, "edit", LAX),
    (ADA, "admin", ATTACKER),
    (VICTOR, "edit", VICTIM),
)
NODES = """
nodes:
  - name: "n{n}"
    count: 4
    allocatable: {pods: "1000"}
    gpus: [{model: A100-SXM4-40GB, memory: 40GiB, count: 4}]
"""
#: The schedulerName of pods for which kube-scheduler asks the extender.
EXTENDED = "hami-scheduler"
_PROFILES = (
    {"schedulerName": NAME},
    {
        "schedulerName": EXTENDED,
        "extender": True,
        "dialects": [{"name": "sharedgpu"}, {"name": "hami"}],
    },
)
_GROUP = "rbac.authorization.k8s.io"
_START_S = 60.0
#: When the nodes were made (Unix time); no kubelet says anything later.
_MADE_S = 1_760_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackedCluster:
    """What runs while the tests do; `port` is the scheduler's, `log` is what it says.

    `extender_port` is for a kube-scheduler, whose pods name EXTENDED.
    """

    plane: ControlPlane
    scheduler: Process
    nodes: tuple[SimulatedNode, ...]
    port: int
    extender_port: int
    log: Path
    folder: Path

    def kubeconfig(self, user: str, *groups: str) -> Path:
        """Of a user with a client certificate."""
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        if not path.exists():
            self.plane.secrets.write_client_kubeconfig(path, self.plane.url, user, *groups)
        return path

    @property
    def admin(self) -> Path:
        """The administrator's."""
        return self.plane.kubeconfig


@contextmanager
def attacked_cluster(plane: ControlPlane, folder: Path) -> Iterator[AttackedCluster]:
    """Run it while entered, once the scheduler leads."""
    port, extender_port = free_ports(2)
    nodes = read_cluster(NODES)
    chart = rendered(
        port,
        *("extender.enabled=true", f"config.extender.port={extender_port}"),
        f"config.profiles={json.dumps(_PROFILES)}",
    )
    plane.create(write([*_namespaces(), RUNTIME_CLASS, *chart], folder / "chart.yaml"))
    plane.create(write(_roles(), folder / "roles.yaml"))
    plane.create(write(_nodes(nodes), folder / "nodes.yaml"))
    log = folder / "scheduler.log"
    with process(scheduler_command(plane, chart, folder), log) as running:
        found = AttackedCluster(
            plane=plane,
            scheduler=running,
            nodes=nodes,
            port=port,
            extender_port=extender_port,
            log=log,
            folder=folder,
        )
        running.wait_until(lambda: '"event":"leads"' in log.read_text(), _START_S)
        yield found


def rendered(port: int, *settings: str) -> list[Json]:
    """The chart's objects; the Service leads to this machine, where there are no Services."""
    text = template(
        *("--set-json=admission.others=true", "--set-json=collector.annotateNode=true"),
        *('--set-json=config.inventory={"source": "annotation"}', "--set-json=replicas=1"),
        f"--set-json=config.server.port={port}",
        *(f"--set-json={one}" for one in settings),
    )
    objects = [one for one in yaml.safe_load_all(text) if one]
    for one in objects:
        if (one["kind"], one["metadata"]["name"]) == ("Service", NAME):
            ports = [{"name": "https", "port": port}]
            one["spec"] = {"type": "ExternalName", "externalName": "localhost", "ports": ports}
        if one["kind"] == "APIService":
            one["spec"]["service"]["port"] = port
    return [parts_only_in(one, (ATTACKER, VICTIM), "labels") for one in objects]


def scheduler_command(plane: ControlPlane, chart: list[Json], folder: Path) -> list[str | Path]:
    """As the Deployment's container starts it, with the ConfigMap and its account's token."""
    [settings] = [
        one["data"]["scheduler.yaml"]
        for one in chart
        if (one["kind"], one["metadata"]["name"]) == ("ConfigMap", NAME)
    ]
    configuration = folder / "scheduler.yaml"
    configuration.write_text(settings)
    tokens = {SCHEDULER: plane.token_of(NAMESPACE, NAME)}
    kubeconfig = replace(plane.secrets, tokens=tokens).write_kubeconfig(
        folder / "scheduler.kubeconfig", plane.url, SCHEDULER
    )
    module = ("-m", "kubeshare_cmd.scheduler")
    return [sys.executable, *module, "--config", configuration, "--kubeconfig", kubeconfig]


def _namespaces() -> list[Json]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in (ATTACKER, LAX, VICTIM)
    ]


def _roles() -> list[Json]:
    return [
        {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{user}-{role}", "namespace": namespace},
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "apiGroup": _GROUP, "name": user}],
        }
        for user, role, namespace in _ROLES
    ]


def _nodes(nodes: tuple[SimulatedNode, ...]) -> list[Json]:
    found = []
    for number, node in enumerate(nodes, 1):
        one = node_object(node, f"172.20.0.{number}", _MADE_S)
        one["metadata"]["annotations"] = {ANNOTATION: write_cards(node.cards)}
        found.append(json.loads(json.dumps(one)))
    return found
