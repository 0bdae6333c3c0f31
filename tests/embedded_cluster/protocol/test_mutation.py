"""The embedded API server does to new pods what webhook and policy do elsewhere."""

import copy
from typing import Any

from hypothesis import given

from kubeshare_py.embedded_cluster.protocol.mutation import environment
from tests.admission.any_pod import pods
from tests.admission.patched import ALL, SHARE, a_pod, env_of, patched
from tests.embedded_cluster.api_client import JOBS, PODS, Api

OURS = {"NVIDIA_VISIBLE_DEVICES": "metadata.annotations['sharedgpu/gpu_uuid']"}


def an_api() -> Api:
    api = Api()
    api.service.mutation = environment(ALL.choices)
    return api


def made_by(pod: dict[str, Any], namespace_labels: dict[str, str], **settings: Any) -> Any:
    """A new pod of a namespace with these labels, as a server with this admission stores it."""
    api = Api()
    api.service.mutation = environment(**settings)
    patch = {"metadata": {"labels": namespace_labels}}
    api.patch("/api/v1/namespaces/fs", patch)
    made = api.post(PODS, pod)
    assert api.status == 201, made
    return made


def test_a_new_pod_gets_the_environment_with_the_servers_defaults() -> None:
    api = an_api()
    made = api.post(PODS, a_pod(SHARE))
    assert made == api.get(f"{PODS}/p")
    [first, *_] = made["spec"]["containers"][0]["env"]
    source = {"apiVersion": "v1", "fieldPath": OURS["NVIDIA_VISIBLE_DEVICES"]}
    assert first == {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": source}}


def test_a_pod_that_got_it_may_be_changed_afterwards() -> None:
    api = an_api()
    api.post(PODS, a_pod(SHARE))
    changed = api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    assert (api.status, changed["metadata"]["labels"]["a"]) == (200, "b")


def test_a_dry_run_shows_it_too() -> None:
    made = an_api().post(f"{PODS}?dryRun=All", a_pod(SHARE))
    assert env_of(made).items() >= OURS.items()


def test_a_pod_that_names_no_scheduler_and_asks_for_a_share_is_ours() -> None:
    pod = a_pod(SHARE)
    del pod["spec"]["schedulerName"]
    made = an_api().post(PODS, pod)
    assert made["spec"]["schedulerName"] == "kubeshare-scheduler"
    assert env_of(made).items() >= OURS.items()


def test_pods_of_other_schedulers_and_other_kinds_are_left_alone() -> None:
    api = an_api()
    made = api.post(PODS, a_pod(SHARE, schedulerName="another"))
    assert env_of(made) == {}
    job = {"template": {"spec": {**a_pod()["spec"], "restartPolicy": "Never"}}}
    made = api.post(JOBS, {"metadata": {"name": "j"}, "spec": job})
    assert env_of(made["spec"]["template"]) == {}


def test_without_admission_nothing_is_added() -> None:
    assert env_of(Api().post(PODS, a_pod(SHARE))) == {}


@given(pod=pods())
def test_it_is_what_the_webhooks_patch_makes_of_the_pod(pod: dict[str, Any]) -> None:
    before = copy.deepcopy(pod)
    assert environment(ALL.choices)(pod, {}) == patched(pod)
    assert pod == before


def test_a_pod_that_is_not_understood_is_left_to_the_servers_checks() -> None:
    bad = a_pod({}, {"value": "without a name"})
    assert environment(ALL.choices)(bad, {}) == bad
