"""The DaemonSet fits the collector: its port, paths and probes; and it is no user of GPUs."""

from typing import Any

import msgspec
import pytest
import yaml

from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from kubeshare_py.edges.node.card_sampler import STALE_AFTER_S
from kubeshare_py.edges.node.collector_server import PORT
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields
from tests.architecture.sources import ROOT
from tests.controlplane.shipped import only, shipped

NAME = "kubeshare-collector"
DAEMONS = only("DaemonSet", NAME)
POD: dict[str, Any] = DAEMONS["spec"]["template"]["spec"]
[CONTAINER] = POD["containers"]


def test_its_pods_may_do_nothing_to_their_node() -> None:
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert POD["securityContext"]["runAsNonRoot"]
    assert POD["securityContext"]["runAsUser"] > 0
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & POD.keys()


def test_nobody_gives_its_account_a_right_or_a_token() -> None:
    account = only("ServiceAccount", NAME)
    assert POD["serviceAccountName"] == account["metadata"]["name"]
    assert account["automountServiceAccountToken"] is False
    assert POD["automountServiceAccountToken"] is False
    bindings = shipped("ClusterRoleBinding", "RoleBinding")
    assert len(bindings) > 1
    assert NAME not in {one["name"] for binding in bindings for one in binding["subjects"]}


def test_the_service_lists_each_of_them_ready_or_not() -> None:
    service = only("Service", NAME)["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    assert service["selector"].items() <= DAEMONS["spec"]["template"]["metadata"]["labels"].items()
    [port], [listens] = service["ports"], CONTAINER["ports"]
    assert port["port"] == listens["containerPort"] == PORT
    assert port["targetPort"] == listens["name"]


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_its_probes_wait_long_enough(path: str) -> None:
    probe = CONTAINER[{"/livez": "livenessProbe", "/readyz": "readinessProbe"}[path]]
    assert probe["httpGet"] == {"path": path, "port": "metrics"}
    assert probe["timeoutSeconds"] == 5
    assert probe.get("failureThreshold", 3) * 10 >= STALE_AFTER_S


def test_it_is_told_its_node_and_sees_all_cards() -> None:
    told = {one["name"]: one.get("value") or one["valueFrom"] for one in CONTAINER["env"]}
    assert told == {
        "NODE_NAME": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "utility",
    }
    assert POD["runtimeClassName"] == "nvidia"


def test_for_the_scheduler_it_is_no_pod_that_has_gpus() -> None:
    labels = DAEMONS["spec"]["template"]["metadata"]["labels"]
    pod = {"metadata": {"labels": labels}, "spec": POD | {"nodeName": "n1"}}
    seen = to_domain(msgspec.convert(pod, PodFields))
    assert (seen.request, seen.problem, seen.allocation) == (None, None, None)
    assert {name for part in CONTAINER["resources"].values() for name in part} == {"cpu", "memory"}
    assert seen.scheduler_name != SCHEDULER_NAME


def test_the_manual_explains_by_which_labels_nodes_are_found() -> None:
    shown = (ROOT / "docs/install.md").read_text()
    values = yaml.safe_load((ROOT / "deploy/chart/kubeshare/values.yaml").read_text())
    required = values["collector"]["affinity"]["nodeAffinity"]
    [terms] = required["requiredDuringSchedulingIgnoredDuringExecution"].values()
    keys = {one["key"] for term in terms for one in term["matchExpressions"]}
    assert len(keys) == 5
    assert {key for key in keys if f"`{key}`" not in shown} == set()
