"""Deployments and ReplicaSets as objects: defaults, what is refused, /scale, /status."""

from typing import Any

import pytest

from tests.embedded_cluster.api_client import JSON_PATCH, MERGE, STRATEGIC, TABLE, Api

DEPLOYMENTS = "/apis/apps/v1/namespaces/fs/deployments"
SETS = "/apis/apps/v1/namespaces/fs/replicasets"
LABELS = {"app": "d"}
MISMATCH = "`selector` does not match template `labels`"


def template(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "a", "image": "x"}]
    return {"metadata": {"labels": labels or LABELS}, "spec": {"containers": containers, **spec}}


def workload(name: str = "d", **spec: Any) -> dict[str, Any]:
    """Paused and of no pods unless said otherwise: real controllers find nothing to do."""
    given = {"selector": {"matchLabels": LABELS}, "template": template(), **spec}
    return {
        "metadata": {"name": name},
        "spec": {key: value for key, value in given.items() if value is not None},
    }


def idle(name: str = "d", **spec: Any) -> dict[str, Any]:
    return workload(name, **{"replicas": 0, "paused": True, **spec})


def messages(status: Any) -> list[str]:
    return [f"{cause['field']}: {cause['message']}" for cause in status["details"]["causes"]]


def test_a_deployment_gets_defaults(api: Api) -> None:
    created = api.post(f"{DEPLOYMENTS}?dryRun=All", workload())
    assert (api.status, created["status"], created["metadata"]["generation"]) == (201, {}, 1)
    spec = created["spec"]
    assert spec["replicas"] == 1
    rolling = {"maxUnavailable": "25%", "maxSurge": "25%"}
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert "labels" not in created["metadata"]


def test_a_replica_set_gets_defaults(api: Api) -> None:
    created = api.post(f"{SETS}?dryRun=All", workload("r"))
    assert (api.status, created["status"]) == (201, {"replicas": 0})
    assert (created["spec"]["replicas"], "labels" in created["metadata"]) == (1, False)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            {"selector": None},
            [
                "spec.selector: Required value",
                f'spec.template.metadata.labels: Invalid value: {{"app":"d"}}: {MISMATCH}',
            ],
        ),
        (
            {"selector": {}},
            ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        ),
        (
            {"template": template({"app": "z"})},
            [f'spec.template.metadata.labels: Invalid value: {{"app":"z"}}: {MISMATCH}'],
        ),
        (
            {"template": None},
            [
                f"spec.template.metadata.labels: Invalid value: null: {MISMATCH}",
                "spec.template.spec.containers: Required value",
            ],
        ),
        (
            {"replicas": -1},
            ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            {"template": template(restartPolicy="Never")},
            [
                'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: '
                '"Always"'
            ],
        ),
        (
            {"template": template(activeDeadlineSeconds=5)},
            [
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in "
                "ReplicaSet is not Supported"
            ],
        ),
        (
            {"selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}},
            [
                "spec.selector.matchExpressions[0].values: Required value: must be specified when "
                "`operator` is 'In' or 'NotIn'",
                'spec.selector: Invalid value: {"matchExpressions":[{"key":"app","operator":"In"}]}'
                ": invalid label selector",
            ],
        ),
    ],
)
@pytest.mark.parametrize("url", [DEPLOYMENTS, SETS])
def test_selector_and_template_belong_together(
    api: Api, url: str, spec: dict[str, Any], told: list[str]
) -> None:
    status = api.post(f"{url}?dryRun=All", workload(**spec))
    assert (api.status, messages(status)) == (422, told)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is "
            "'Recreate'",
        ),
        (
            {"strategy": {"type": "Foo"}},
            'spec.strategy: Unsupported value: {"Type":"Foo","RollingUpdate":null}: supported '
            'values: "Recreate", "RollingUpdate"',
        ),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when "
            "`maxSurge` is 0",
        ),
        (
            {"strategy": {"rollingUpdate": {"maxUnavailable": "120%"}}},
            'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "120%": must not be '
            "greater than 100%",
        ),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": "10"}}},
            'spec.strategy.rollingUpdate.maxSurge: Invalid value: "10": a valid percent string '
            "must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used "
            "for validation is '[0-9]+%')",
        ),
        (
            {"minReadySeconds": 5, "progressDeadlineSeconds": 5},
            "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds",
        ),
        (
            {"revisionHistoryLimit": -1},
            "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
        ),
    ],
)
def test_strategies_that_make_no_sense_are_refused(
    api: Api, spec: dict[str, Any], told: str
) -> None:
    status = api.post(f"{DEPLOYMENTS}?dryRun=All", workload(**spec))
    assert (api.status, messages(status)) == (422, [told])


def test_a_percentage_may_be_a_number_but_nothing_else(api: Api) -> None:
    strategy = {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": "10%"}}
    created = api.post(f"{DEPLOYMENTS}?dryRun=All", workload(strategy=strategy))
    assert created["spec"]["strategy"]["rollingUpdate"] == strategy["rollingUpdate"]
    api.post(f"{DEPLOYMENTS}?dryRun=All", workload(strategy={"rollingUpdate": {"maxSurge": True}}))
    assert api.status == 400


def test_the_selector_is_fixed(api: Api) -> None:
    other = {"selector": {"matchLabels": {"app": "z"}}}
    shown = 'Invalid value: {"matchLabels":{"app":"z"}}: field is immutable'
    for url, name in ((DEPLOYMENTS, "d"), (SETS, "r")):
        spec = {} if url == SETS else {"paused": True}
        api.post(url, workload(name, replicas=0, **spec))
        status = api.patch(f"{url}/{name}", {"spec": {**other, "template": template({"app": "z"})}})
        assert (api.status, messages(status)) == (422, [f"spec.selector: {shown}"])
        status = api.patch(f"{url}/{name}", {"spec": other})
        assert [text.partition(":")[0] for text in messages(status)] == [
            "spec.template.metadata.labels",
            "spec.selector",
        ]


def test_a_deployments_generation_counts_annotations_too(api: Api) -> None:
    api.post(DEPLOYMENTS, idle())
    api.post(SETS, workload("r", replicas=0))
    note = {"metadata": {"annotations": {"x": "1"}}}

    def generation(url: str, change: Any) -> int:
        return int(api.patch(url, change, STRATEGIC)["metadata"]["generation"])

    assert generation(f"{DEPLOYMENTS}/d", note) == 2
    assert generation(f"{DEPLOYMENTS}/d", {"metadata": {"labels": {"x": "1"}}}) == 2
    written = {"metadata": {"annotations": {"x": "2"}}}
    assert generation(f"{DEPLOYMENTS}/d/status", written) == 2
    assert api.get(f"{DEPLOYMENTS}/d")["metadata"]["annotations"]["x"] == "2"
    assert generation(f"{DEPLOYMENTS}/d", {"spec": {"minReadySeconds": 1}}) == 3
    assert generation(f"{SETS}/r", note) == 1


def test_changing_the_strategy_needs_the_old_ones_settings_gone(api: Api) -> None:
    api.post(DEPLOYMENTS, idle())
    api.patch(f"{DEPLOYMENTS}/d", {"spec": {"strategy": {"type": "Recreate"}}}, STRATEGIC)
    assert api.status == 422
    recreate = {"$retainKeys": ["type"], "type": "Recreate"}
    changed = api.patch(f"{DEPLOYMENTS}/d", {"spec": {"strategy": recreate}}, STRATEGIC)
    assert changed["spec"]["strategy"] == {"type": "Recreate"}
    changed = api.patch(f"{DEPLOYMENTS}/d", {"spec": {"strategy": None}})
    assert changed["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == "25%"


def test_counts_in_a_status_must_add_up(api: Api) -> None:
    api.post(DEPLOYMENTS, idle())
    api.post(SETS, workload("r", replicas=0))
    wrong = {"replicas": 1, "readyReplicas": 5, "availableReplicas": 7}
    for url in (f"{DEPLOYMENTS}/d/status", f"{SETS}/r/status"):
        status = api.patch(url, {"status": wrong})
        assert messages(status) == [
            "status.readyReplicas: Invalid value: 5: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 7: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 7: cannot be greater than readyReplicas",
        ]
    status = api.patch(f"{DEPLOYMENTS}/d/status", {"status": {"unavailableReplicas": -1}})
    assert api.status == 422


def test_scale_is_a_view_of_the_replicas(api: Api) -> None:
    api.post(DEPLOYMENTS, idle())
    scale = api.get(f"{DEPLOYMENTS}/d/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({}, {"replicas": 0, "selector": "app=d"})
    shown = {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}
    assert scale["metadata"].keys() - {"managedFields"} == shown


@pytest.mark.parametrize(
    ("change", "content_type"),
    [
        ({"spec": {"replicas": 3}}, MERGE),
        ({"spec": {"replicas": 3}}, STRATEGIC),
        ([{"op": "add", "path": "/spec/replicas", "value": 3}], JSON_PATCH),
    ],
)
@pytest.mark.parametrize("url", [DEPLOYMENTS, SETS])
def test_scale_is_patched_in_three_ways(api: Api, url: str, change: Any, content_type: str) -> None:
    # No ReplicaSet of its own: nobody makes pods.
    spec = {"selector": {"matchLabels": LABELS}} if url == SETS else {"paused": True}
    api.post(url, workload("w", replicas=0, **spec))
    changed = api.patch(f"{url}/w/scale?dryRun=All", change, content_type)
    assert (api.status, changed["spec"]) == (200, {"replicas": 3})
    assert api.get(f"{url}/w/scale")["spec"] == {}


def test_scale_is_put_with_and_without_a_version(api: Api) -> None:
    api.post(DEPLOYMENTS, idle())
    body: dict[str, Any] = {"metadata": {"name": "d"}, "spec": {"replicas": 2}}
    assert api.put(f"{DEPLOYMENTS}/d/scale", body)["spec"] == {"replicas": 2}
    found = api.get(f"{DEPLOYMENTS}/d")
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (2, 2)
    body["metadata"]["resourceVersion"] = "1"
    status = api.put(f"{DEPLOYMENTS}/d/scale", body)
    assert (api.status, status["details"]["kind"]) == (409, "deployments")


def test_scale_refuses_negative_numbers_other_verbs_and_unknown_names(api: Api) -> None:
    api.post(DEPLOYMENTS, idle())
    status = api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": -3}})
    assert (api.status, status["details"]["kind"]) == (422, "Scale")
    assert messages(status) == [
        "spec.replicas: Invalid value: -3: must be greater than or equal to 0"
    ]
    api.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": "3"}})
    assert api.status == 422
    api.post(f"{DEPLOYMENTS}/d/scale", {})
    assert api.status == 405
    status = api.get(f"{DEPLOYMENTS}/x/scale")
    assert status["message"] == 'deployments.apps "x" not found'


def test_tables_have_the_servers_columns(api: Api) -> None:
    selector = {
        "matchLabels": {"b": "c", "a": "b"},
        "matchExpressions": [
            {"key": "e", "operator": "In", "values": ["y", "x"]},
            {"key": "f", "operator": "NotIn", "values": ["y"]},
            {"key": "g", "operator": "Exists"},
            {"key": "h", "operator": "DoesNotExist"},
        ],
    }
    found = template({"a": "b", "b": "c", "e": "x", "g": "1"})
    found["spec"]["containers"].append({"name": "b", "image": "y"})
    spec = {"replicas": 0, "selector": selector, "template": found}
    api.post(DEPLOYMENTS, workload("d", paused=True, **spec))
    api.post(SETS, workload("r", **spec))
    shown = "a=b,b=c,e in (x,y),f notin (y),g,!h"
    assert api.get(f"{DEPLOYMENTS}/d/scale")["status"]["selector"] == shown
    wide = [("Containers", "string", 1), ("Images", "string", 1), ("Selector", "string", 1)]
    for url, columns, cells in (
        (
            DEPLOYMENTS,
            [("Ready", "string", 0), ("Up-to-date", "string", 0), ("Available", "string", 0)],
            ["d", "0/0", 0, 0],
        ),
        (
            SETS,
            [("Desired", "integer", 0), ("Current", "integer", 0), ("Ready", "integer", 0)],
            ["r", 0, 0, 0],
        ),
    ):
        table = api.get(url, TABLE)
        listed = [(one["name"], one["type"], one["priority"]) for one in table["columnDefinitions"]]
        assert listed[1:] == [*columns, ("Age", "string", 0), *wide]
        row = table["rows"][0]["cells"]
        assert [*row[:4], *row[5:]] == [*cells, "a,b", "x,y", shown]


def test_discovery_names_short_names_categories_and_scale(api: Api) -> None:
    rows = {row["name"]: row for row in api.get("/apis/apps/v1")["resources"]}
    assert (rows["deployments"]["shortNames"], rows["replicasets"]["shortNames"]) == (
        ["deploy"],
        ["rs"],
    )
    for plural in ("deployments", "replicasets"):
        assert rows[plural]["categories"] == ["all"]
        assert rows[f"{plural}/status"]["verbs"] == ["get", "patch", "update"]
        scale = rows[f"{plural}/scale"]
        assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
        assert scale["verbs"] == ["get", "patch", "update"]


def test_deleting_without_options_leaves_nothing_waiting(api: Api) -> None:
    api.post(DEPLOYMENTS, idle())
    status = api.delete(f"{DEPLOYMENTS}/d")
    assert (status["status"], status["details"]["kind"]) == ("Success", "deployments")
    api.get(f"{DEPLOYMENTS}/d")
    assert api.status == 404
