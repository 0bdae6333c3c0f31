"""What deploy/ ships fits the code: it names what the code names, and waits as long as it does."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.leader_election import seconds
from kubeshare_py.configuration.scheduler import SchedulerConfiguration, read
from kubeshare_py.dialects import results
from kubeshare_py.edges.scheduler.decision_loop import DRAIN_S
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.manifests.reports import CONTROLLER
from kubeshare_py.scheduling.pod_groups import gang_repair
from kubeshare_py.scheduling.preemption import preemption
from tests.architecture.sources import ROOT
from tests.controlplane import values_schema
from tests.controlplane.shipped import only, shipped

CHART = ROOT / "deploy/chart/kubeshare"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads(values_schema.SCHEMA.read_text())
NAME, NAMESPACE = "kubeshare-scheduler", "kube-system"
#: Values that are explained one by one.
NESTED = (
    "image",
    "eventLog",
    "apiService",
    "collector",
    "policies",
    "admission",
    "extender",
    "hamiMetrics",
    "mps",
    "nodeAgent",
    "aggregator",
    "dashboard",
    "sharePods",
    "networkPolicies",
    "serviceMonitor",
    "podMonitor",
    "prometheusRule",
    "grafana",
)


def policy(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The specs of a policy and of its binding."""
    made = only("ValidatingAdmissionPolicy", f"kubeshare-{name}")
    bound = only("ValidatingAdmissionPolicyBinding", f"kubeshare-{name}")
    assert bound["spec"]["policyName"] == made["metadata"]["name"]
    assert bound["spec"]["validationActions"] == ["Deny"]
    return made["spec"], bound["spec"]


def expressions(spec: dict[str, Any]) -> str:
    """All that a policy computes."""
    parts = [*spec["matchConditions"], *spec.get("variables", ()), *spec["validations"]]
    return "\n".join(part["expression"] for part in parts)


def results_guarded() -> str:
    """What counts as a result in the policy about pods, which asks more besides."""
    variables = policy("pods")[0]["variables"]
    [touched] = [one["expression"] for one in variables if one["name"] == "touched"]
    found: str = touched
    return found


def pods() -> dict[str, Any]:
    """The spec of the Deployment's pods."""
    found: dict[str, Any] = only("Deployment", NAME)["spec"]["template"]["spec"]
    return found


def fields(document: object, kind: type[SchedulerConfiguration]) -> set[str]:
    """Paths of all settings of the configuration, down to sections."""
    found = set()
    for shown, name in zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True):
        inner = getattr(document, name)
        names = getattr(inner, "__struct_encode_fields__", None)
        found |= {f"{shown}.{one}" for one in names} if names else {shown}
    return found


def test_the_fence_is_compared_with_the_lease_that_schedulers_lead_by() -> None:
    made, bound = policy("bindings")
    place = read(None).leader_election
    assert made["paramKind"] == {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    assert bound["paramRef"] == {
        "name": place.resource_name,
        "namespace": place.resource_namespace,
        "parameterNotFoundAction": "Allow",
    }
    [compared] = [one for one in made["validations"] if "isLater" in one["expression"]]
    assert f"'{results.ALLOCATION}' in" in compared["expression"]
    [fence] = [one["expression"] for one in made["variables"] if one["name"] == "fence"]
    assert f"'{results.FENCE}'" in fence


def test_the_policy_guards_exactly_the_schedulers_annotations() -> None:
    text = results_guarded()
    keys = {*re.findall(r"'(sharedgpu/[a-z_]+)'", text)}
    assert keys == {
        results.ALLOCATION, results.GPU_UUID, results.GPU_MODEL, results.GPU_MEM, results.CELL_ID,
        results.MANAGER_PORT, results.FENCE, results.MEMORY_MIB, results.MPS_THREADS,
        results.MPS_MEMORY, results.RESERVATION,
    }  # fmt: skip
    assert all(results.is_result(key) for key in keys)
    assert '"ALIYUN_COM_GPU_MEM_IDX"' in text  # of dialects in the default profile
    [pattern] = re.findall(r"matches\('([^']*)'\)", text)
    for key in ("container-0.gpu_uuid", "init-12.gpu_uuid", "container-x.gpu_uuid", "init-1"):
        matched = re.search(pattern, f"sharedgpu/{key}") is not None
        assert matched == results.is_result(f"sharedgpu/{key}")


def test_the_policy_lets_the_scheduler_through_and_nobody_else() -> None:
    made, _ = policy("pods")
    assert f"request.userInfo.username != '{SCHEDULER}'" in expressions(made)


@pytest.mark.parametrize("what", ["deletions", "events", "apiservice"])
def test_policies_limit_the_schedulers_own_account(what: str) -> None:
    made, _ = policy(f"token-{what}")
    [only_for] = made["matchConditions"]
    assert only_for["expression"] == f"request.userInfo.username == '{SCHEDULER}'"


def test_they_let_through_what_the_code_writes() -> None:
    own = [
        one["expression"]
        for one in policy("pods")[0]["validations"]
        if one.get("message", one.get("messageExpression")).lstrip("'").startswith(NAME)
    ]
    text = "\n".join(own)
    for said in ("PodScheduled", "Unschedulable", "DisruptionTarget", preemption.REASON):
        assert f"'{said}'" in text
    assert f"'{gang_repair.REASON}'" in text
    assert {*re.findall(r"'(sharedgpu/[^']*)'", text)} == {results.RESERVATION}
    for text in (own[0], expressions(policy("token-deletions")[0])):
        assert f'schedulerName in ["{read(None).profiles[0].scheduler_name}"]' in text
    bound, guarded = expressions(policy("bindings")[0]), results_guarded()
    keys = re.compile(r"'(sharedgpu/[a-z_]+|\^sharedgpu/[^']*)'")
    assert {*keys.findall(bound)} == {*keys.findall(guarded)}
    assert f"'{CONTROLLER}'" in expressions(policy("token-events")[0])


def test_the_pods_run_as_the_account_that_has_the_rights() -> None:
    account = only("ServiceAccount", NAME)["metadata"]
    assert f"system:serviceaccount:{account['namespace']}:{account['name']}" == SCHEDULER
    assert pods()["serviceAccountName"] == account["name"]
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        [subject] = only(kind, NAME)["subjects"]
        assert (subject["name"], subject["namespace"]) == (account["name"], NAMESPACE)


def test_the_default_configuration_is_the_schedulers() -> None:
    document = yaml.safe_load(only("ConfigMap", NAME)["data"]["scheduler.yaml"])
    shown = read(document)
    assert shown == read(None)
    profiles(shown, IN_TREE)
    assert VALUES["config"]["inventory"]["url"] == shown.inventory.url


def test_the_schema_of_the_values_has_the_fields_and_bounds_of_the_configuration() -> None:
    assert values_schema.written(SCHEMA) == values_schema.SCHEMA.read_text(), "make manifests"


def test_what_the_chart_sets_itself_is_a_setting() -> None:
    settings = fields(read(None), SchedulerConfiguration)
    sections = {path.partition(".")[0] for path in settings}
    assert settings | sections >= values_schema.OF_THE_CHART


def test_every_value_is_in_the_schema_and_has_a_default() -> None:
    assert {*SCHEMA["properties"]} == {*VALUES, "global"}
    for name, value in VALUES.items():
        inner = SCHEMA["properties"][name]
        if "properties" in inner and name not in ("config", "cards"):
            assert {*inner["properties"]} == {*value}


def test_every_value_is_explained_where_people_look() -> None:
    shown = (ROOT / "docs/install.md").read_text().split("## Values\n")[1]
    rows = re.findall(r"^\| `([A-Za-z.]+)`((?:, `[A-Za-z.]+`)*) \| (.*?) \|", shown, re.MULTILINE)
    explained = [
        name for first, others, _ in rows for name in (first, *re.findall(r"`(.+?)`", others))
    ]
    paths = set()
    for name, value in VALUES.items():
        nested = isinstance(value, dict) and name in NESTED
        paths |= {f"{name}.{inner}" for inner in value} if nested else {name}
    assert sorted(explained) == sorted(paths)


def test_a_pod_gets_the_time_that_an_orderly_end_takes() -> None:
    released_s = seconds(read(None).leader_election.renew_deadline) / 2
    assert pods()["terminationGracePeriodSeconds"] >= DRAIN_S + released_s + 5


def test_the_service_leads_to_the_port_that_the_scheduler_listens_on() -> None:
    server = read(None).server
    service = only("Service", server.service)
    [port] = service["spec"]["ports"]
    [container] = pods()["containers"]
    [listens] = container["ports"]
    assert port["port"] == listens["containerPort"] == server.port
    assert port["targetPort"] == listens["name"]
    labels = only("Deployment", NAME)["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_a_pod_may_do_nothing_to_its_node() -> None:
    [container] = pods()["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    security = pods()["securityContext"]
    assert security["runAsNonRoot"]
    assert security["runAsUser"] > 0
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pods().keys()
    assert not [one for one in pods()["volumes"] if "hostPath" in one]


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_the_probes_are_those_that_the_manual_explains(path: str) -> None:
    manual = (ROOT / "docs/operations.md").read_text()
    [container] = pods()["containers"]
    name = {"/livez": "livenessProbe", "/readyz": "readinessProbe"}[path]
    [line] = re.findall(rf"^{name}:\s+(\{{.*\}})$", manual, re.MULTILINE)
    assert container[name]["httpGet"]["path"] == path
    explained = yaml.safe_load(line)
    explained["httpGet"]["port"] = "https"
    assert container[name] == explained


def test_nothing_is_shipped_twice() -> None:
    found = [
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
        for one in shipped()
    ]
    assert len({*found}) == len(found)
    files = sorted((ROOT / "deploy").rglob("*.yaml"))
    plain = [path.relative_to(ROOT / "deploy") for path in files]
    # The manifest of the kubectl plugin is for krew, not for a cluster.
    assert [path for path in plain if path.parts[0] not in ("chart", "krew")] == [
        Path("kubeshare.yaml"),
        Path("prometheus.yaml"),
    ]
