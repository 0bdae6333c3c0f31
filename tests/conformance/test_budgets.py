"""PodDisruptionBudgets as objects, and every way an eviction is answered."""

from typing import Any

import pytest

from tests.embedded_cluster.api_client import PODS, STRATEGIC, TABLE, Api

BUDGETS = "/apis/policy/v1/namespaces/fs/poddisruptionbudgets"
SELECTOR = {"matchLabels": {"app": "e"}}
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
NOBODY_COUNTS = pytest.mark.embedded_only("a real disruption controller writes the status itself")


def budget(name: str = "b", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": SELECTOR, **spec}}


def pod(api: Api, name: str, ready: str = "True", phase: str = "Running") -> None:
    body = {
        "metadata": {"name": name, "labels": {"app": "e"}},
        "spec": {"nodeName": "ghost", "containers": [{"name": "a", "image": "x"}]},
    }
    api.post(PODS, body)
    conditions = [{"type": "Ready", "status": ready}]
    api.patch(f"{PODS}/{name}/status", {"status": {"phase": phase, "conditions": conditions}})


def evict(api: Api, name: str, query: str = "", **fields: Any) -> Any:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **fields}
    return api.post(f"{PODS}/{name}/eviction{query}", body)


def write(api: Api, **status: Any) -> None:
    """The status that a controller would have written."""
    known = {"observedGeneration": 1, "expectedPods": 2, "currentHealthy": 2, "desiredHealthy": 1}
    api.patch(f"{BUDGETS}/b/status", {"status": {**known, **status}})
    assert api.status == 200


def condition(**fields: Any) -> dict[str, Any]:
    known = {"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods"}
    return {"lastTransitionTime": "2026-01-01T00:00:00Z", "message": "", **known, **fields}


def test_a_budget_begins_with_zeros(api: Api) -> None:
    created = api.post(f"{BUDGETS}?dryRun=All", budget(minAvailable=1))
    zeros = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    assert created["status"] == dict.fromkeys(zeros, 0)
    assert (created["metadata"]["generation"], created["spec"]["minAvailable"]) == (1, 1)
    everybody = api.post(f"{BUDGETS}?dryRun=All", {"metadata": {"name": "x"}})
    assert (api.status, everybody["spec"]) == (201, {})
    empty = {"metadata": {"name": "x"}, "spec": {"selector": {}, "maxUnavailable": "50%"}}
    assert api.post(f"{BUDGETS}?dryRun=All", empty)["spec"]["selector"] == {}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            {"minAvailable": 1, "maxUnavailable": 1},
            'spec: Invalid value: {"MinAvailable":1,"Selector":{"matchLabels":{"app":"e"}},'
            '"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: minAvailable and '
            "maxUnavailable cannot be both set",
        ),
        (
            {"minAvailable": -1},
            "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            {"minAvailable": "120%"},
            'spec.minAvailable: Invalid value: "120%": must not be greater than 100%',
        ),
        (
            {"maxUnavailable": "-5%"},
            'spec.maxUnavailable: Invalid value: "-5%": a valid percent string must be a numeric '
            "string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is "
            "'[0-9]+%')",
        ),
        (
            {"minAvailable": 1, "unhealthyPodEvictionPolicy": "Foo"},
            'spec.unhealthyPodEvictionPolicy: Unsupported value: "Foo": supported values: '
            '"AlwaysAllow", "IfHealthyBudget"',
        ),
    ],
)
def test_budgets_that_are_refused(api: Api, spec: dict[str, Any], told: str) -> None:
    status = api.post(f"{BUDGETS}?dryRun=All", budget(**spec))
    assert api.status == 422
    assert status["message"] == f'PodDisruptionBudget.policy "b" is invalid: {told}'


def test_a_budget_is_replaced_only_at_a_version(api: Api) -> None:
    api.post(BUDGETS, budget(minAvailable=1))
    status = api.put(f"{BUDGETS}/b", budget(minAvailable=2))
    assert status["message"] == (
        'poddisruptionbudgets.policy "b" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update"
    )


def test_a_budgets_selector_is_patched_as_a_whole(api: Api) -> None:
    api.post(BUDGETS, budget(minAvailable=1))
    other = {"matchLabels": {"x": "y"}}
    changed = api.patch(f"{BUDGETS}/b", {"spec": {"selector": other}}, STRATEGIC)
    assert (changed["spec"]["selector"], changed["metadata"]["generation"]) == (other, 2)
    api.patch(f"{BUDGETS}/b/status", {"status": {"disruptionsAllowed": -1}})
    assert api.status == 422


def test_budget_tables_show_what_was_not_given_as_not_applicable(api: Api) -> None:
    api.post(BUDGETS, budget("b", minAvailable=0))
    api.post(BUDGETS, budget("c", maxUnavailable="34%"))
    table = api.get(BUDGETS, TABLE)
    listed = [(one["name"], one["type"]) for one in table["columnDefinitions"]]
    assert listed[1:] == [
        ("Min Available", "string"),
        ("Max Unavailable", "string"),
        ("Allowed Disruptions", "integer"),
        ("Age", "string"),
    ]
    cells = [row["cells"][:4] for row in table["rows"]]
    assert cells == [["b", "0", "N/A", 0], ["c", "N/A", "34%", 0]]


def test_discovery_has_budgets_and_where_evictions_go(api: Api) -> None:
    rows = {row["name"]: row for row in api.get("/apis/policy/v1")["resources"]}
    assert rows["poddisruptionbudgets"]["shortNames"] == ["pdb"]
    assert "poddisruptionbudgets/status" in rows


def test_pods_without_a_budget_are_evicted_with_a_condition_that_says_so(api: Api) -> None:
    pod(api, "p")
    watch = api.watch(f"{PODS}?resourceVersion={api.revision()}")
    assert (evict(api, "p")["status"], api.status) == ("Success", 201)
    marked, going = watch.events()
    target = marked["object"]["status"]["conditions"][-1]
    assert (target["type"], target["status"]) == ("DisruptionTarget", "True")
    assert (target["reason"], target["message"]) == (
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    )
    assert "deletionTimestamp" not in marked["object"]["metadata"]
    assert going["object"]["metadata"]["deletionGracePeriodSeconds"] == 30


def test_an_eviction_is_about_the_pod_of_the_url_as_it_is(api: Api) -> None:
    pod(api, "p")
    status = api.post(f"{PODS}/p/eviction", {"metadata": {"name": "q"}})
    assert (api.status, status["message"]) == (
        400,
        "name in URL does not match name in Eviction object",
    )
    uid = api.get(f"{PODS}/p")["metadata"]["uid"]
    status = evict(api, "p", deleteOptions={"preconditions": {"uid": "zzz"}})
    assert (api.status, status["details"]) == (409, {"name": "p", "kind": "Pod"})
    assert status["message"] == (
        'Operation cannot be fulfilled on Pod "p": the UID in the precondition (zzz) does not '
        f"match the UID in record ({uid}). The object might have been deleted and then recreated"
    )
    evict(api, "x")
    assert api.status == 404


def test_a_dry_run_evicts_nothing(api: Api) -> None:
    pod(api, "p")
    evict(api, "p", "?dryRun=All")
    assert api.status == 201
    found = api.get(f"{PODS}/p")
    assert "deletionTimestamp" not in found["metadata"]
    assert [one["type"] for one in found["status"]["conditions"]] == ["Ready"]


def test_several_budgets_on_one_pod_are_an_error_of_the_server(api: Api) -> None:
    pod(api, "p")
    api.post(BUDGETS, budget("b", minAvailable=0))
    api.post(BUDGETS, budget("c", minAvailable=0))
    status = evict(api, "p")
    assert (api.status, "reason" in status) == (500, False)
    assert status["message"] == (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
        "support."
    )


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_pods_that_do_not_run_need_no_budget(api: Api, phase: str) -> None:
    api.post(BUDGETS, budget(minAvailable=5))
    pod(api, "p", "False", phase)
    evict(api, "p")
    assert api.status == 201


@NOBODY_COUNTS
def test_a_budget_that_was_not_counted_yet_asks_to_come_again(api: Api) -> None:
    pod(api, "p")
    api.post(BUDGETS, budget(minAvailable=1))
    status = evict(api, "p")
    assert (api.status, status["reason"], status["message"]) == (429, "TooManyRequests", REFUSED)
    why = "The disruption budget b is still being processed by the server."
    causes = [{"reason": "DisruptionBudget", "message": why}]
    assert status["details"] == {"causes": causes, "retryAfterSeconds": 10}
    assert ("Retry-After", "10") in api.answer.headers


@NOBODY_COUNTS
@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"currentHealthy": 1, "desiredHealthy": 2}, "needs 2 healthy pods and has 1 currently"),
        ({"currentHealthy": 2, "desiredHealthy": 2}, "needs 2 healthy pods and has 2 currently"),
        ({}, "does not allow evicting pods currently"),
        (
            {"conditions": [condition(message="m")]},
            "does not allow evicting pods currently (InsufficientPods): m",
        ),
        (
            {"conditions": [condition(reason="SyncFailed", message="oh no")]},
            "does not allow evicting pods currently because it failed sync: oh no",
        ),
    ],
)
def test_a_budget_says_why_nobody_may_go(api: Api, status: dict[str, Any], why: str) -> None:
    pod(api, "p")
    api.post(BUDGETS, budget(minAvailable=1))
    write(api, **status)
    answer = evict(api, "p")
    causes = [{"reason": "DisruptionBudget", "message": f"The disruption budget b {why}"}]
    assert (api.status, answer["details"]) == (429, {"causes": causes})
    assert "Retry-After" not in dict(api.answer.headers)


@NOBODY_COUNTS
def test_an_eviction_takes_one_disruption_and_names_the_pod(api: Api) -> None:
    for name in ("p", "q"):
        pod(api, name)
    api.post(BUDGETS, budget(minAvailable=1))
    allowed = condition(status="True", reason="SufficientPods")
    write(api, disruptionsAllowed=2, currentHealthy=3, conditions=[allowed])
    evict(api, "p", "?dryRun=All")
    assert api.get(f"{BUDGETS}/b")["status"]["disruptionsAllowed"] == 2
    evict(api, "p")
    status = api.get(f"{BUDGETS}/b")["status"]
    assert (status["disruptionsAllowed"], [*status["disruptedPods"]]) == (1, ["p"])
    assert status["conditions"] == [allowed]
    evict(api, "q")
    status = api.get(f"{BUDGETS}/b")["status"]
    assert (status["disruptionsAllowed"], [*status["disruptedPods"]]) == (0, ["p", "q"])
    (last,) = status["conditions"]
    assert (last["status"], last["reason"], last["message"]) == ("False", "InsufficientPods", "")


@NOBODY_COUNTS
def test_a_refused_deletion_has_taken_its_disruption_all_the_same(api: Api) -> None:
    pod(api, "p")
    api.post(BUDGETS, budget(minAvailable=1))
    write(api, disruptionsAllowed=1)
    evict(api, "p", deleteOptions={"preconditions": {"uid": "zzz"}})
    assert api.status == 409
    assert api.get(f"{BUDGETS}/b")["status"]["disruptionsAllowed"] == 0


@NOBODY_COUNTS
@pytest.mark.parametrize(
    ("policy", "healthy", "desired", "code"),
    [
        (None, 2, 2, 201),
        (None, 1, 2, 429),
        (None, 0, 0, 429),
        ("IfHealthyBudget", 1, 2, 429),
        ("AlwaysAllow", 0, 2, 201),
    ],
)
def test_pods_that_are_not_ready_go_where_nothing_is_lost(
    api: Api, policy: str | None, healthy: int, desired: int, code: int
) -> None:
    pod(api, "p", "False")
    spec = {"unhealthyPodEvictionPolicy": policy} if policy else {}
    api.post(BUDGETS, budget(minAvailable=2, **spec))
    write(api, currentHealthy=healthy, desiredHealthy=desired)
    evict(api, "p")
    assert api.status == code
    assert "disruptedPods" not in api.get(f"{BUDGETS}/b")["status"]
