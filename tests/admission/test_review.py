import json

import pytest

from kubeshare_py.admission.review import answer, answer_of_others
from tests.admission.patched import ALL, a_pod, answered, review


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
    answer(deep, ALL)


def test_others_are_told_void() -> None:
    found = answer_of_others(review(a_pod(schedulerName="default-scheduler")))
    assert found is not None
    assert json.loads(found)["response"]["patchType"] == "JSONPatch"


def test_the_answer_is_of_the_version_that_was_asked() -> None:
    found = answer(review(a_pod()), ALL)
    assert found is not None
    assert json.loads(found)["apiVersion"] == "admission.k8s.io/v1"
    assert json.loads(found)["kind"] == "AdmissionReview"
