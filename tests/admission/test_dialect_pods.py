"""Whose pods become that ask in a dialect's resources, as webhook and embedded cluster decide."""

import pytest

from kubeshare_py.admission.dialect_pods import LABEL, OptIn, taken_resources
from kubeshare_py.admission.review import Rules
from kubeshare_py.domain.card_reading import IsolationBackend, IsolationChoice
from kubeshare_py.domain.values import replace
from tests.admission.patched import SHARE, Json, a_pod, answered, env_of, review
from tests.dialects.halves import DIALECTS, GPU, HALF
from tests.embedded_cluster.protocol.test_mutation import made_by

CHOICES = {
    name: IsolationChoice((IsolationBackend.NONE,)) for name in ("kubeshare-scheduler", "other")
}
RULES = Rules(choices=CHOICES, dialects=DIALECTS)
TAKEN = taken_resources(DIALECTS, CHOICES)


def asking(resource: str = HALF, amount: str = "1", **fields: object) -> Json:
    spec: Json = {"schedulerName": "default-scheduler", **fields}
    resources = {"limits": {resource: amount}}
    return a_pod(containers=[{"name": "main", "image": "x", "resources": resources}], **spec)


def test_resources_name_the_first_profile_that_enables_their_dialect() -> None:
    assert TAKEN == {HALF: "kubeshare-scheduler"}
    every = taken_resources(DIALECTS, CHOICES, contested=True)
    assert every == {HALF: "kubeshare-scheduler", GPU: "kubeshare-scheduler"}
    assert taken_resources(DIALECTS, ["other"]) == {}


@pytest.mark.parametrize(
    ("opt_in", "labels", "takes"),
    [
        (OptIn.NAMESPACE, {}, False),
        (OptIn.NAMESPACE, {LABEL: "true"}, True),
        (OptIn.NAMESPACE, {LABEL: "yes"}, False),
        (OptIn.ALL, {}, True),
        (OptIn.ALL, {LABEL: "false"}, False),
        (OptIn.NONE, {LABEL: "true"}, False),
    ],
)
def test_namespaces_opt_in_by_a_label_and_clusters_as_a_whole(
    opt_in: OptIn, labels: dict[str, str], takes: bool
) -> None:
    assert opt_in.takes(labels) is takes
    made = made_by(asking(), labels, choices=CHOICES, dialects=DIALECTS, opt_in=opt_in)
    name = "kubeshare-scheduler" if takes else "default-scheduler"
    assert made["spec"]["schedulerName"] == name
    assert bool(env_of(made)) is takes


def test_the_webhook_takes_them_where_it_is_asked_about_them() -> None:
    body = review(asking())
    assert "patch" not in answered(body, RULES)
    assert "patch" in answered(body, replace(RULES, taken=TAKEN))


@pytest.mark.parametrize(
    "pod",
    [
        asking(amount="0"),
        asking(GPU),
        asking("example.com/another"),
        asking(schedulerName="another"),
        asking(nodeName="n1"),
    ],
)
def test_other_pods_keep_the_scheduler_that_they_have(pod: Json) -> None:
    assert "patch" not in answered(review(pod), replace(RULES, taken=TAKEN))


def test_a_pod_opts_out_by_its_label_and_is_ours_if_it_names_us() -> None:
    pod = asking()
    pod["metadata"]["labels"] = {LABEL: "false"}
    assert "patch" not in answered(review(pod), replace(RULES, taken=TAKEN))
    pod["spec"]["schedulerName"] = "kubeshare-scheduler"
    assert "patch" in answered(review(pod), RULES)


def test_keys_sharedgpu_decide_before_resources() -> None:
    pod = asking()
    pod["metadata"]["labels"] = {**SHARE, LABEL: "false"}
    refused = answered(review(pod), replace(RULES, taken=TAKEN))
    assert "a pod can only use one dialect" in refused["status"]["message"]
