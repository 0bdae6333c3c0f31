import base64
import json

import pytest

from kubeshare_py.admission.review import MOST_CONTAINERS, MOST_KEYS, answer, answer_of_others
from kubeshare_py.domain.values import replace
from tests.admission.patched import ALL, SHARE, Json, a_pod, answered, env_of, patched, review
from tests.dialects.halves import DIALECTS


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"request": {}}', b'{"request": 1}', b"\xff"]
)
def test_what_is_no_review_has_no_answer(body: bytes) -> None:
    assert answer(body, ALL) is None


@pytest.mark.parametrize(
    "pod",
    [
        *(
            None,
            1,
            [],
            "x",
            {"spec": 1},
            {"metadata": {"labels": []}},
            {"spec": {"containers": {}}},
        ),
        {"spec": {"containers": [{"env": [{"value": "without a name"}]}]}},
    ],
)
def test_a_pod_that_is_not_understood_is_let_through_with_a_warning(pod: object) -> None:
    response = answered(review(pod))
    assert response["allowed"]
    assert "patch" not in response
    assert response["warnings"][0].startswith("kubeshare-admission leaves this pod as it is: ")


def test_deep_nesting_is_not_understood_and_no_error() -> None:
    deep = b'{"request": {"uid": "u", "object": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    assert answer(deep, ALL)


def test_others_are_told_void() -> None:
    found = answer_of_others(review(a_pod(schedulerName="default-scheduler")))
    assert found is not None
    assert json.loads(found)["response"]["patchType"] == "JSONPatch"


@pytest.mark.parametrize(
    ("asked", "version"),
    [("v1", "v1"), ("v1beta1", "v1beta1"), ("v2", "v1"), ("v1beta1/x", "v1")],
)
def test_the_answer_is_of_the_version_that_was_asked(asked: str, version: str) -> None:
    """HAMi's registration asks for v1beta1; what is not known is answered in v1."""
    body = json.loads(review(a_pod())) | {"apiVersion": f"admission.k8s.io/{asked}"}
    for one in (body, body | {"request": {**body["request"], "object": 1}}):
        found = answer(json.dumps(one).encode(), ALL)
        assert found is not None
        assert json.loads(found)["apiVersion"] == f"admission.k8s.io/{version}"
        assert json.loads(found)["kind"] == "AdmissionReview"


VALIDATING = replace(ALL, validates=True)
TYPO = {"sharedgpu/gpu_limit": "1.0", "sharedgpu/gpu_requset": "0.5"}


@pytest.mark.parametrize("scheduler", ["kubeshare-scheduler", "default-scheduler", ""])
def test_a_key_that_is_not_known_is_refused_with_what_was_meant(scheduler: str) -> None:
    response = answered(review(a_pod(TYPO, schedulerName=scheduler)), VALIDATING)
    assert not response["allowed"]
    assert response["status"] == {
        "message": "label sharedgpu/gpu_requset is not known; did you mean sharedgpu/gpu_request?",
        "reason": "Invalid",
        "code": 422,
    }


def test_values_are_refused_in_the_words_of_the_scheduler() -> None:
    pod = a_pod(SHARE)
    pod["metadata"]["annotations"] = {"sharedgpu/gpu_models": ">"}
    message = answered(review(pod), VALIDATING)["status"]["message"]
    assert message.startswith('sharedgpu/gpu_models=">": must be names of GPU models')


@pytest.mark.parametrize(
    ("spec", "request_"),
    [
        ({"schedulerName": "another"}, {}),
        ({"nodeName": "n"}, {}),
        ({}, {"operation": "UPDATE"}),
        ({}, {"subResource": "ephemeralcontainers", "operation": "UPDATE", "oldObject": a_pod()}),
    ],
)
def test_pods_that_the_scheduler_will_not_read_are_not_refused(spec: Json, request_: Json) -> None:
    assert answered(review(a_pod(TYPO, **spec), **request_), VALIDATING)["allowed"]


def test_nothing_is_refused_without_the_wish() -> None:
    assert answered(review(a_pod(TYPO)), ALL)["allowed"]


@pytest.mark.parametrize("metadata", [{"labels": SHARE}, {"annotations": {"sharedgpu/x": "y"}}])
def test_a_pod_that_names_no_scheduler_and_has_our_keys_is_ours(metadata: Json) -> None:
    pod = a_pod(schedulerName="default-scheduler")
    pod["metadata"] |= metadata
    found = patched(pod)
    assert found["spec"]["schedulerName"] == "kubeshare-scheduler"
    assert env_of(found)["NVIDIA_VISIBLE_DEVICES"]


@pytest.mark.parametrize(
    ("labels", "spec"),
    [
        ({"app": "x"}, {}),
        ({"shared-gpu/gpu_request": "1"}, {}),
        (SHARE, {"nodeName": "n"}),
    ],
)
def test_other_pods_keep_the_scheduler_that_they_have(labels: Json, spec: Json) -> None:
    pod = a_pod(labels, schedulerName="default-scheduler", **spec)
    assert patched(pod) == pod


def test_a_pod_that_is_nested_deeper_than_a_decoder_goes_is_patched() -> None:
    body = review(a_pod({**SHARE, "deep": "?"})).replace(
        b'"deep": "?"', b'"a": "b"}, "managedFields": [' + b"[" * 3000 + b"]" * 3000 + b'], "x": {'
    )
    response = answered(body)
    assert "patch" in response
    assert "warnings" not in response


def test_a_value_of_any_length_is_refused_in_a_sentence() -> None:
    response = answered(review(a_pod({"sharedgpu/gpu_request": "x" * 100_000})), VALIDATING)
    assert not response["allowed"]
    assert len(response["status"]["message"]) < 1000


@pytest.mark.parametrize(
    ("labels", "amount", "said"),
    [
        ({}, "1", None),
        ({}, "2", 'resources[example.com/half]="2": must be 1, half a card'),
        (SHARE, "1", "resources[example.com/half] in dialect halves: a pod can only use one"),
    ],
)
def test_a_pod_is_judged_by_the_dialects_of_its_profile(
    labels: dict[str, str], amount: str, said: str | None
) -> None:
    asks = {"name": "main", "resources": {"limits": {"example.com/half": amount}}}
    pod = a_pod(labels, containers=[asks], schedulerName="kubeshare-scheduler")
    response = answered(review(pod), replace(VALIDATING, dialects=DIALECTS))
    assert response["allowed"] is (said is None)
    assert said is None or said in response["status"]["message"]
    assert answered(review(a_pod(containers=[asks])), VALIDATING)["allowed"]


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize("scheduler", ["kubeshare-scheduler", "default-scheduler"])
def test_a_pod_of_more_containers_than_any_node_runs_is_refused_and_not_patched(
    kind: str, scheduler: str
) -> None:
    ask = answer if scheduler in ALL.choices else lambda body, _: answer_of_others(body)
    for count, is_allowed in ((MOST_CONTAINERS, True), (MOST_CONTAINERS + 1, False)):
        many = [{"name": f"c{number}", "image": "x"} for number in range(count)]
        body = review(a_pod(SHARE, **{"schedulerName": scheduler, kind: many}))
        found = ask(body, ALL)
        assert found is not None
        assert len(found) < 2**20
        response = json.loads(found)["response"]
        assert response["allowed"] is is_allowed
        if not is_allowed:
            text = f"spec.{kind}: the pod has {count}, more than {MOST_CONTAINERS}"
            assert response["status"]["message"] == text


def test_pods_of_many_containers_of_other_schedulers_are_left_alone() -> None:
    many = [{"name": f"c{number}"} for number in range(MOST_CONTAINERS + 1)]
    response = answered(review(a_pod(schedulerName="default-scheduler", containers=many)))
    assert response == {"uid": "u", "allowed": True}


@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_a_pod_of_more_keys_than_any_has_is_not_looked_into(kind: str) -> None:
    """It lacks its variables, so that the policies refuse it if it is ours."""
    many = {f"sharedgpu/k{number}": "1" for number in range(MOST_KEYS + 1)}
    pod = a_pod(SHARE)
    pod["metadata"] |= {kind: many}
    response = answered(review(pod))
    assert response["allowed"]
    assert "patch" not in response
    [warning] = response["warnings"]
    assert f"metadata.{kind}: the pod has {MOST_KEYS + 1}, more than {MOST_KEYS}" in warning


def test_more_ephemeral_containers_than_any_node_runs_are_refused() -> None:
    many = [{"name": f"c{number}"} for number in range(MOST_CONTAINERS + 1)]
    body = review(
        a_pod(SHARE, ephemeralContainers=many),
        operation="UPDATE",
        subResource="ephemeralcontainers",
        oldObject=a_pod(SHARE),
    )
    assert answered(body)["allowed"] is False


def test_containers_without_variables_get_all_in_one_step() -> None:
    many = [{"name": f"c{number}"} for number in range(100)]
    steps = json.loads(base64.b64decode(answered(review(a_pod(SHARE, containers=many)))["patch"]))
    assert [one["path"] for one in steps] == [f"/spec/containers/{at}/env" for at in range(100)]
