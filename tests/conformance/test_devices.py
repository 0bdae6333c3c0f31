"""ResourceClaims, their templates, ResourceSlices, DeviceClasses: defaults, rules, rows."""

from typing import Any

import pytest

from tests.conformance.refusals import told
from tests.embedded_cluster.api_client import PODS, STRATEGIC, TABLE, Api

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/fs/resourceclaims"
TEMPLATES = f"{GROUP}/namespaces/fs/resourceclaimtemplates"
SLICES = f"{GROUP}/resourceslices"
CLASSES = f"{GROUP}/deviceclasses"
DRY = "?dryRun=All"
NO_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)
POD = {"resource": "pods", "name": "p", "uid": "11111111-1111-4111-8111-111111111111"}
RESULT = {"request": "gpu", "driver": "d.example", "pool": "n1", "device": "gpu-0"}


def exactly(**fields: Any) -> dict[str, Any]:
    return {"name": "gpu", "exactly": {"deviceClassName": "gpu", **fields}}


def claim(*requests: dict[str, Any], **devices: Any) -> dict[str, Any]:
    asked = list(requests) or [exactly()]
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": asked, **devices}}}


def resource_slice(**spec: Any) -> dict[str, Any]:
    device = {
        "name": "gpu-0",
        "attributes": {"uuid": {"string": "GPU-1"}, "index": {"int": 0}, "ok": {"bool": False}},
        "capacity": {"memory": {"value": "1024Mi"}},
    }
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    full = {"driver": "d.example", "nodeName": "n1", "pool": pool, "devices": [device], **spec}
    return {"metadata": {"name": "s"}, "spec": full}


def test_a_claim_asks_for_one_device_exactly_and_is_pending(api: Api) -> None:
    created = api.post(CLAIMS, claim())
    assert created["status"] == {}
    wanted = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert created["spec"]["devices"] == {"requests": [{"name": "gpu", "exactly": wanted}]}
    assert api.get(CLAIMS, TABLE)["rows"][0]["cells"][:2] == ["c", "pending"]


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (
            {"name": "a"},
            ": Required value: exactly one of `exactly` or `firstAvailable` is required",
        ),
        (exactly(count=-1), ".exactly.count: Invalid value: -1: must be greater than zero"),
        (
            exactly(allocationMode="All", count=1),
            ".exactly.count: Invalid value: 1: must not be specified when allocationMode is 'All'",
        ),
        (
            exactly(allocationMode="X"),
            '.exactly.allocationMode: Unsupported value: "X": supported values: "All", '
            '"ExactCount"',
        ),
        ({"name": "a", "exactly": {}}, ".exactly.deviceClassName: Required value"),
        (exactly(selectors=[{}]), ".exactly.selectors[0].cel: Required value"),
    ],
)
def test_requests_that_are_refused(api: Api, request_: dict[str, Any], why: str) -> None:
    assert told(api.post(CLAIMS, claim(request_))) == f"spec.devices.requests[0]{why}"


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        (
            {"constraints": [{"requests": ["zz"], "matchAttribute": "d.example/x"}]},
            f'constraints[0].requests[0]: Invalid value: "zz": {NO_REQUEST}',
        ),
        ({"config": [{"requests": ["gpu"]}]}, "config[0].opaque: Required value"),
    ],
)
def test_constraints_and_configurations_that_are_refused(
    api: Api, devices: dict[str, Any], why: str
) -> None:
    assert told(api.post(CLAIMS, claim(**devices))) == f"spec.devices.{why}"


def test_two_requests_have_two_names(api: Api) -> None:
    status = api.post(CLAIMS, claim(exactly(), exactly()))
    assert told(status) == 'spec.devices.requests[1]: Duplicate value: "gpu"'


def test_what_a_claim_asks_for_is_fixed(api: Api) -> None:
    api.post(CLAIMS, claim())
    changed = api.patch(f"{CLAIMS}/c", {"spec": claim(exactly(count=3))["spec"]})
    assert told(changed) == "spec: Invalid value: {}: field is immutable"


def test_a_claim_is_allocated_before_it_is_reserved(api: Api) -> None:
    body = claim()
    body["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    api.post(CLAIMS, body)
    early = api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": [POD]}})
    assert told(early) == (
        "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
    )
    wrong = {"devices": {"results": [{**RESULT, "request": "zz"}]}}
    refused = api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": wrong}})
    where = "status.allocation.devices.results[0].request"
    assert told(refused) == f'{where}: Invalid value: "zz": {NO_REQUEST}'
    allocation = {"devices": {"results": [RESULT]}}
    status = {"allocation": allocation, "reservedFor": [POD]}
    answer = api.patch(f"{CLAIMS}/c/status", {"status": status})
    assert answer["status"] == status


@pytest.mark.embedded_only("the claim controller there takes back what no pod holds")
def test_an_allocation_stays_and_each_consumer_is_there_once(api: Api) -> None:
    api.post(CLAIMS, claim())
    status = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": [POD]}
    api.patch(f"{CLAIMS}/c/status", {"status": status})
    assert api.get(CLAIMS, TABLE)["rows"][0]["cells"][1] == "allocated,reserved"
    other = {"devices": {"results": [{**RESULT, "device": "gpu-1"}]}}
    moved = api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": other}})
    assert told(moved) == "status.allocation: Invalid value: {}: field is immutable"
    twice = api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": [POD, POD]}})
    assert told(twice) == f'status.reservedFor[1]: Duplicate value: "{POD["uid"]}"'


@pytest.mark.embedded_only("the claim controller there takes the reservation of no pod away")
def test_consumers_merge_by_uid_and_a_claim_that_goes_takes_no_new_ones(api: Api) -> None:
    body = claim()
    body["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    api.post(CLAIMS, body)
    allocation = {"devices": {"results": [RESULT]}}
    api.patch(f"{CLAIMS}/c/status", {"status": {"allocation": allocation}})
    second = {**POD, "uid": "22222222-2222-4222-8222-222222222222"}
    for one in (POD, second):
        api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": [one]}}, STRATEGIC)
    uids = {one["uid"] for one in api.get(f"{CLAIMS}/c")["status"]["reservedFor"]}
    assert uids == {POD["uid"], second["uid"]}
    api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": [POD]}})
    api.delete(f"{CLAIMS}/c")
    assert api.get(CLAIMS, TABLE)["rows"][0]["cells"][1] == "deleted,allocated,reserved"
    late = api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": [POD, second]}})
    assert told(late).startswith("status.reservedFor: Forbidden: new entries may not be added")
    api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": None, "allocation": None}})
    api.patch(f"{CLAIMS}/c", {"metadata": {"finalizers": None}})
    api.get(f"{CLAIMS}/c")
    assert api.status == 404


def test_a_template_has_a_claims_defaults_and_is_fixed(api: Api) -> None:
    spec = claim()["spec"]
    body = {"metadata": {"name": "t"}, "spec": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}
    created = api.post(TEMPLATES, body)
    request = created["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    assert (request["allocationMode"], request["count"]) == ("ExactCount", 1)
    changed = api.patch(f"{TEMPLATES}/t", {"spec": {"metadata": {"labels": {"a": "c"}}}})
    assert told(changed) == "spec: Invalid value: {}: field is immutable"
    bare = api.post(f"{TEMPLATES}{DRY}", {"metadata": {"name": "u"}})
    assert bare["spec"] == {"metadata": {}, "spec": {"devices": {"requests": None}}}
    assert api.delete(f"{TEMPLATES}/t")["kind"] == "ResourceClaimTemplate"


def test_a_device_class_counts_its_changes(api: Api) -> None:
    api.delete(f"{CLASSES}/gpu")
    selectors = [{"cel": {"expression": "device.driver == 'd.example'"}}]
    api.post(CLASSES, {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}})
    changed = api.patch(f"{CLASSES}/gpu", {"spec": {"extendedResourceName": "d.example/gpu"}})
    assert changed["metadata"]["generation"] == 2
    assert [row["cells"][0] for row in api.get(CLASSES, TABLE)["rows"]] == ["gpu"]
    wrong = api.patch(f"{CLASSES}/gpu", {"spec": {"extendedResourceName": "cpu"}})
    where = "spec.extendedResourceName"
    assert told(wrong) == f'{where}: Invalid value: "cpu": must be a valid extended resource name'
    assert api.delete(f"{CLASSES}/gpu")["kind"] == "DeviceClass"


def test_slices_are_selected_by_node_and_driver_and_shown_with_their_pool(api: Api) -> None:
    api.delete(f"{SLICES}/s")
    created = api.post(SLICES, resource_slice())
    assert created["spec"]["devices"][0]["capacity"] == {"memory": {"value": "1Gi"}}
    assert created["spec"]["devices"][0]["attributes"]["ok"] == {"bool": False}
    selector = "fieldSelector=spec.nodeName=n1,spec.driver=d.example"
    assert len(api.get(f"{SLICES}?{selector}")["items"]) == 1
    assert api.get(f"{SLICES}?fieldSelector=spec.nodeName=n2")["items"] == []
    assert api.get(SLICES, TABLE)["rows"][0]["cells"][:4] == ["s", "n1", "d.example", "n1"]
    grown = api.patch(f"{SLICES}/s", {"spec": {"pool": {"generation": 2}}})
    assert grown["metadata"]["generation"] == 2
    moved = api.patch(f"{SLICES}/s", {"spec": {"nodeName": "n2"}})
    assert told(moved) == 'spec.nodeName: Invalid value: "n2": field is immutable'
    api.delete(f"{SLICES}/s")


ONE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"driver": ""}, "spec.driver: Required value"),
        (
            {"pool": {"name": "n1"}},
            "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
        ),
        ({"nodeName": None}, f"spec: Required value: {ONE}"),
        (
            {"allNodes": True},
            f'spec: Invalid value: "{{`nodeName`, `allNodes`}}": {ONE}, '
            "but multiple fields are set",
        ),
        (
            {"devices": [{"name": "a"}, {"name": "a"}]},
            'spec.devices[1]: Duplicate value: "a"',
        ),
        (
            {"devices": [{"name": "a", "attributes": {"x": {}}}]},
            'spec.devices[0].attributes[x]: Invalid value: "": exactly one value must be specified',
        ),
    ],
)
def test_slices_that_are_refused(api: Api, spec: dict[str, Any], why: str) -> None:
    assert told(api.post(SLICES, resource_slice(**spec))) == why


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        (
            [{"name": "g"}],
            "spec.resourceClaims[0]: Invalid value: {}: must specify one of: "
            "`resourceClaimName`, `resourceClaimTemplateName`",
        ),
        (
            [{"name": "g", "resourceClaimName": "c"}] * 2,
            'spec.resourceClaims[1].name: Duplicate value: "g"',
        ),
        ([{"resourceClaimName": "c"}], "spec.resourceClaims[0].name: Required value"),
        ([{"name": "g", "resourceClaimTemplateName": "t"}], ""),
    ],
)
def test_claims_of_pods(api: Api, claims: list[Any], why: str) -> None:
    assert told(_pod(api, [], resourceClaims=claims)) == why


def test_a_container_uses_claims_of_its_pod(api: Api) -> None:
    status = _pod(api, [{"name": "zz"}])
    assert told(status) == (
        'spec.containers[0].resources.claims[0]: Not found: "zz": must be one of the names in '
        "pod.spec.resourceClaims which is empty"
    )


def _pod(api: Api, used: list[Any], **spec: Any) -> Any:
    containers = [{"name": "a", "image": "x", "resources": {"claims": used}}]
    body = {"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}
    return api.post(f"{PODS}{DRY}", body)
