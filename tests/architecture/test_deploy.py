"""What deploy/ holds fits the code: it parses, and names what the code names."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeshare_py.dialects import results
from kubeshare_py.edges.api_server import SCHEDULER
from kubeshare_py.framework.configuration import read
from tests.architecture.test_house_style import ROOT

DEPLOY = ROOT / "deploy"
FILES = sorted([*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")])
POLICIES = DEPLOY / "policies"


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def policy(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The specs of a policy and of its binding."""
    made, bound = documents(POLICIES / f"{name}.yaml")
    assert made["kind"] == "ValidatingAdmissionPolicy"
    assert bound["kind"] == "ValidatingAdmissionPolicyBinding"
    assert bound["spec"]["policyName"] == made["metadata"]["name"] == f"kubeshare-{name}"
    assert bound["spec"]["validationActions"] == ["Deny"]
    return made["spec"], bound["spec"]


def expressions(spec: dict[str, Any]) -> str:
    """All that a policy computes."""
    parts = [*spec["matchConditions"], *spec["variables"], *spec["validations"]]
    return "\n".join(part["expression"] for part in parts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(DEPLOY).as_posix())
def test_every_file_is_kubernetes_objects(path: Path) -> None:
    if "templates" in path.parts or path.name in ("Chart.yaml", "values.yaml"):
        pytest.skip("of a chart: rendered elsewhere")
    for one in documents(path):
        assert {"apiVersion", "kind", "metadata"} <= one.keys()
        assert one["metadata"]["name"]


def test_the_fence_is_compared_with_the_lease_that_schedulers_lead_by() -> None:
    made, bound = policy("fence")
    place = read(None).leader_election
    assert made["paramKind"] == {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    assert bound["paramRef"] == {
        "name": place.resource_name,
        "namespace": place.resource_namespace,
        "parameterNotFoundAction": "Deny",
    }
    found = {*re.findall(r"'(sharedgpu/[^']*)'", expressions(made))}
    assert found == {results.FENCE, results.ALLOCATION}


def test_the_results_policy_guards_exactly_the_schedulers_annotations() -> None:
    made, _ = policy("results")
    text = expressions(made)
    keys = {*re.findall(r"'(sharedgpu/[a-z_]+)'", text)}
    assert keys == {
        results.ALLOCATION, results.GPU_UUID, results.GPU_MODEL, results.GPU_MEM, results.CELL_ID,
        results.MANAGER_PORT, results.FENCE,
    }  # fmt: skip
    assert all(results.is_result(key) for key in keys)
    [pattern] = re.findall(r"matches\('(.*)'\)", text)
    for key in ("container-0.gpu_uuid", "init-12.gpu_uuid", "container-x.gpu_uuid", "init-1"):
        matched = re.search(pattern, f"sharedgpu/{key}") is not None
        assert matched == results.is_result(f"sharedgpu/{key}")


def test_the_results_policy_lets_the_scheduler_through_and_nobody_else() -> None:
    made, _ = policy("results")
    assert f"request.userInfo.username != '{SCHEDULER}'" in expressions(made)
