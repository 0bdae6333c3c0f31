"""A write that names the uid of another object is refused, by a patch otherwise than by a PUT."""

from typing import Any

import pytest

from tests.embedded_cluster.api_client import JSON_PATCH, MERGE, PODS, STRATEGIC, Api

UID = "00000000-0000-4000-8000-000000000000"
OTHER = {"metadata": {"uid": UID}}
REPLACE = [{"op": "replace", "path": "/metadata/uid", "value": UID}]
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}


@pytest.mark.parametrize(
    ("url", "body", "content_type"),
    [
        (f"{PODS}/p", OTHER, MERGE),
        (f"{PODS}/p", OTHER, STRATEGIC),
        (f"{PODS}/p/status", {**OTHER, "status": {"phase": "Running"}}, STRATEGIC),
        (f"{PODS}/p", REPLACE, JSON_PATCH),
    ],
    ids=["merge", "strategic", "status", "json"],
)
def test_a_patch_cannot_change_it(api: Api, url: str, body: Any, content_type: str) -> None:
    api.post(PODS, POD)
    status = api.send("PATCH", url, body, content_type=content_type)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"] == (
        f'Pod "p" is invalid: metadata.uid: Invalid value: "{UID}": field is immutable'
    )
    assert {cause["field"] for cause in status["details"]["causes"]} == {"metadata.uid"}


def test_a_put_is_about_the_object_that_it_names(api: Api) -> None:
    pod = api.post(PODS, POD)
    pod["metadata"]["uid"] = UID
    status = api.send("PUT", f"{PODS}/p", pod)
    assert (status["code"], status["reason"]) == (409, "Conflict")
    assert f"Precondition failed: UID in precondition: {UID}" in status["message"]
