"""What the chart makes of `admission.validate` and `admission.schedulerName`."""

import json
import re

import pytest
import yaml

from tests.controlplane.helm import template
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json

pytestmark = pytest.mark.real_only("it needs Helm, which make e2e builds")

MUTATING, VALIDATING = "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"


@pytest.fixture(autouse=True)
def built(bare: ControlPlane) -> None:
    """Helm is there."""


def rendered(**admission: object) -> list[Json]:
    profiles = [{"schedulerName": "gpu"}, {"schedulerName": "batch"}]
    text = template(
        f"--set-json=admission={json.dumps(admission)}",
        f"--set-json=config.profiles={json.dumps(profiles)}",
        kubernetes="v1.36.0",
    )
    return [one for one in yaml.safe_load_all(text) if one]


def named(objects: list[Json], kind: str, name: str) -> Json | None:
    found = [one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found[0] if found else None


def labels_policy(objects: list[Json]) -> str:
    """What is checked of labels, as text; "" if nothing is."""
    policy = named(objects, VALIDATING, "kubeshare-pods")
    checks = policy["spec"]["validations"] if policy else []
    about = [one for one in checks if re.search("labelsApply|labelProblem", json.dumps(one))]
    return json.dumps(about) if about else ""


def named_scheduler(objects: list[Json]) -> str | None:
    """The schedulerName that the policy sets in pods that name none; None if there is none."""
    policy = named(objects, MUTATING, "kubeshare-environment")
    if policy is None:
        return None
    [mutation] = policy["spec"]["mutations"]
    found = re.search(
        "path: '/spec/schedulerName', value: '([^']*)'", mutation["jsonPatch"]["expression"]
    )
    return found[1] if found else None


def webhook(objects: list[Json]) -> tuple[list[str], str]:
    """The webhook's arguments, and the pods that it is asked about."""
    deployment = named(objects, "Deployment", "kubeshare-admission")
    hooks = named(objects, "MutatingWebhookConfiguration", "kubeshare-admission")
    assert deployment
    assert hooks
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    [hook] = [one for one in hooks["webhooks"] if one["name"] == "environment.kubeshare.io"]
    [condition] = hook["matchConditions"]
    return container["args"], condition["expression"]


def test_policies_name_the_first_profile_in_pods_that_name_none() -> None:
    objects = rendered(by="policy")
    assert named_scheduler(objects) == "gpu"
    assert "variables.labelProblem" in labels_policy(objects)
    assert "set spec.schedulerName" not in labels_policy(objects)


def test_the_webhook_is_asked_about_pods_that_name_none() -> None:
    objects = rendered(by="webhook")
    arguments, asked_about = webhook(objects)
    assert named_scheduler(objects) is None
    assert "'default-scheduler'" in asked_about
    assert "--no-validate" not in arguments
    assert "variables.labelProblem" in labels_policy(objects)


def test_an_upgrade_that_reuses_older_values_has_the_defaults() -> None:
    objects = rendered(by="policy", validate=None, schedulerName=None)
    assert named_scheduler(objects) == "gpu"
    assert "variables.labelProblem" in labels_policy(objects)


@pytest.mark.parametrize("admission", [{"schedulerName": "demand"}, {"by": "none"}])
def test_where_nothing_may_set_the_name_it_is_demanded(admission: Json) -> None:
    objects = rendered(**admission)
    assert named_scheduler(objects) is None
    assert "which only gpu understands: set spec.schedulerName to batch or gpu" in labels_policy(
        objects
    )


@pytest.mark.parametrize("by", ["policy", "webhook"])
def test_names_may_be_ignored_and_labels_too(by: str) -> None:
    objects = rendered(by=by, schedulerName="ignore", validate=False)
    assert named_scheduler(objects) is None
    assert labels_policy(objects) == ""
    if by == "webhook":
        arguments, asked_about = webhook(objects)
        assert "--no-validate" in arguments
        assert "default-scheduler" not in asked_about


EXTRA = [{"name": "halves", "resources": ["example.com/half"], "contested": ["nvidia.com/gpu"]}]
TAKING = [
    f"--set-json=extraDialects={json.dumps(EXTRA)}",
    '--set-json=config.profiles=[{"schedulerName": "gpu", "dialects": [{"name": "halves"}]}]',
]


#: Namespaces that HAMi's webhook, and its ancestor's, leave alone.
IGNORED = [
    {"key": key, "operator": "NotIn", "values": ["ignore"]}
    for key in ("hami.io/webhook", "4pd.io/webhook")
]


def taking(by: str, *settings: str) -> tuple[Json | None, str]:
    """The namespaces whose pods are taken by resources, and by which; None if none are."""
    text = template(f"--set=admission.by={by}", *TAKING, *settings, kubernetes="v1.36.0")
    objects = [one for one in yaml.safe_load_all(text) if one]
    if by == "policy":
        policy = named(objects, MUTATING, "kubeshare-dialect-pods")
        if policy is None:
            return None, ""
        spec = policy["spec"]
        return spec["matchConstraints"]["namespaceSelector"], json.dumps(spec)
    hooks = named(objects, "MutatingWebhookConfiguration", "kubeshare-admission")
    assert hooks
    found = [one for one in hooks["webhooks"] if one["name"] == "dialects.kubeshare.io"]
    return (found[0]["namespaceSelector"], json.dumps(found)) if found else (None, "")


@pytest.mark.parametrize("by", ["policy", "webhook"])
def test_pods_of_dialects_are_taken_in_namespaces_that_opted_in(by: str) -> None:
    key = "kubeshare.io/dialects"
    where, text = taking(by)
    own = {"key": key, "operator": "In", "values": ["true"]}
    assert where == {"matchExpressions": [own, *IGNORED]}
    assert 'name in [\\"example.com/half\\"]' in text
    assert by == "webhook" or '{\\"example.com/half\\":\\"gpu\\"}' in text
    assert "nvidia.com/gpu" not in text
    where, text = taking(
        by, "--set=admission.dialectPods=all", "--set=admission.contestedPods=true"
    )
    own = {"key": key, "operator": "NotIn", "values": ["false"]}
    assert where == {"matchExpressions": [own, *IGNORED]}
    assert 'name in [\\"example.com/half\\",\\"nvidia.com/gpu\\"]' in text
    assert by == "webhook" or '\\"nvidia.com/gpu\\":\\"gpu\\"' in text


@pytest.mark.parametrize("by", ["policy", "webhook"])
@pytest.mark.parametrize(
    "setting",
    [
        "--set=admission.dialectPods=none",
        "--set=admission.schedulerName=demand",
        "--set=admission.schedulerName=ignore",
        '--set-json=config.profiles=[{"dialects": [{"name": "sharedgpu"}]}]',
    ],
)
def test_they_are_not_where_that_is_not_wished(by: str, setting: str) -> None:
    assert taking(by, setting) == (None, "")
