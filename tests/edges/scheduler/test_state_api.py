"""The state as an API group: who gets which answer, in the words of the Kubernetes API."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from kubeshare_py.edges.kube.delegated_auth import ResourceAttributes
from kubeshare_py.manifests.state_group import card_object
from kubeshare_py.views.view import ClusterView, NodeView, WhyView
from tests.edges.state_readers import ROOT, Rights, State, state_of
from tests.terminal.views import a_card, a_small_view, a_why

GPUS, PODS = f"{ROOT}/gpus", f"{ROOT}/pods"
TRAIN = f"{ROOT}/namespaces/default/pods/train"
LIST_PODS, LIST_GPUS, GET_POD = ("list", "pods"), ("list", "gpus"), ("get", "pods")
PATHS = (GPUS, PODS, f"{ROOT}/namespaces/default/pods", TRAIN)
DISCOVERY = (ROOT, "/apis", "/apis/state.kubeshare.io", "/openapi/v2", "/openapi/v3")


@pytest.fixture
async def state() -> AsyncIterator[State]:
    """`root` may read everything, `jane` cards and the pods of `default`, `tom` those of `team`."""
    rights = Rights(
        {
            "root": {(*one, "") for one in (LIST_PODS, LIST_GPUS, GET_POD, ("get", "gpus"))},
            "jane": {(*LIST_GPUS, ""), (*LIST_PODS, "default"), (*GET_POD, "default")},
            "tom": {(*LIST_PODS, "team")},
        }
    )
    async with state_of(rights, "of-the-file") as state:
        yield state


async def test_cards_are_a_list_with_the_fields_of_the_view(state: State) -> None:
    code, body = await state.ask(GPUS, "root")
    assert (code, body["kind"], body["apiVersion"]) == (200, "GPUList", "state.kubeshare.io/v1")
    assert msgspec.convert(body, ClusterView) == a_small_view()


async def test_kubectl_and_client_libraries_get_a_list_of_objects(state: State) -> None:
    code, body = await state.ask(f"{GPUS}?limit=500", "root")
    assert (code, body["kind"], body["metadata"]) == (200, "GPUList", {})
    items = body["items"]
    assert isinstance(items, list)
    names = [card.uuid for node in a_small_view().nodes for card in node.cards]
    assert [one["metadata"]["name"] for one in items] == names
    first = items[0]
    assert (first["kind"], first["apiVersion"]) == ("GPU", "state.kubeshare.io/v1")
    assert (first["status"]["node"], first["status"]["state"]) == ("n1", "Ready")
    assert first["status"]["pods"][0]["name"] == "one"
    assert (await state.ask(f"{GPUS}/{names[0]}", "root")) == (200, first)
    _, body = await state.ask(f"{PODS}?limit=500", "root")
    pods = body["items"]
    assert isinstance(pods, list)
    shown = {(one["kind"], one["metadata"]["name"], one["pod"]["state"]) for one in pods}
    assert ("PodState", "one", "bound") in shown
    assert len(pods) == len(a_small_view().pods)


async def test_one_card_needs_the_right_to_get_it(state: State) -> None:
    code, body = await state.ask(f"{GPUS}/GPU-n1-0", "jane")
    assert (code, body["reason"]) == (403, "Forbidden")
    code, body = await state.ask(f"{GPUS}/GPU-none", "root")
    assert (code, body["message"]) == (404, 'gpus.state.kubeshare.io "GPU-none" not found')


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("watch=true", 405, "cannot be watched: `kubectl kubeshare gpus -w` shows changes"),
        ("labelSelector=a%3Db", 400, "have no labels: `kubectl kubeshare gpus -l` takes labels"),
        ("fieldSelector=a%3Db", 400, "cannot be selected by fields: `kubectl kubeshare gpus NAME`"),
    ],
)
async def test_what_lists_of_the_group_cannot_do_is_refused_with_a_way(
    state: State, query: str, code: int, said: str
) -> None:
    given, body = await state.ask(f"{GPUS}?{query}", "root")
    assert given == code
    assert said in str(body["message"])
    assert (await state.ask(f"{PODS}?{query}", "root"))[0] == code


async def test_the_schema_of_cards_names_every_field_that_they_have(state: State) -> None:
    _, document = await state.ask("/openapi/v3/apis/state.kubeshare.io/v1", "tom")
    [schema] = msgspec.to_builtins(document)["components"]["schemas"].values()
    status = schema["properties"]["status"]["properties"]
    _, card = await state.ask(f"{GPUS}/GPU-n1-0", "root")
    given = msgspec.to_builtins(card)["status"]
    measured = card_object(NodeView(name="n1"), a_card(0, busy_milli=365, in_use_bytes=2))["status"]
    assert status.keys() == given.keys() | measured.keys()
    # What is not known of the card is absent.
    assert measured.keys() - given.keys() == {"busyMilli", "inUseBytes"}
    assert (measured["busyMilli"], measured["inUseBytes"]) == (365, 2)
    assert given["pods"][0].keys() == status["pods"]["items"]["properties"].keys()


@pytest.mark.parametrize("path", [PODS, f"{ROOT}/namespaces/default/pods"])
async def test_pods_are_a_list_of_the_same_shape(state: State, path: str) -> None:
    code, body = await state.ask(path, "root")
    assert (code, body["kind"]) == (200, "PodStateList")
    assert msgspec.convert(body, ClusterView) == a_small_view()


async def test_one_pod_is_told_with_the_reasons(state: State) -> None:
    code, body = await state.ask(TRAIN, "jane")
    assert (code, body["kind"]) == (200, "PodState")
    assert body["metadata"] == {"namespace": "default", "name": "train", "uid": "uid-train"}
    assert msgspec.convert(body, WhyView) == a_why()


async def test_an_administrator_costs_one_question_and_sees_all_namespaces(state: State) -> None:
    await state.ask(GPUS, "root")
    assert state.seen == ["default", "team"]
    assert [str(one) for one in state.rights.asked] == [
        'list resource "gpus" in API group "state.kubeshare.io" at the cluster scope',
        'list resource "pods" in API group "state.kubeshare.io" at the cluster scope',
    ]


async def test_others_see_the_namespaces_whose_pods_they_may_list(state: State) -> None:
    assert (await state.ask(GPUS, "jane"))[0] == 200
    assert state.seen == ["default"]
    namespaces = [
        one.namespace for one in state.rights.asked if isinstance(one, ResourceAttributes)
    ]
    assert namespaces == ["", "", "default", "team"]


async def test_what_is_about_one_namespace_names_no_pod_of_another(state: State) -> None:
    await state.ask(TRAIN, "jane")
    assert state.seen == ["default"]
    await state.ask(f"{ROOT}/namespaces/default/pods", "jane")
    assert state.seen == ["default"]


@pytest.mark.parametrize(
    ("user", "path", "what"),
    [
        ("tom", GPUS, 'gpus.state.kubeshare.io is forbidden: User "tom" cannot list'),
        ("jane", PODS, 'pods.state.kubeshare.io is forbidden: User "jane" cannot list'),
        ("jane", f"{ROOT}/namespaces/team/pods", 'in the namespace "team"'),
        ("tom", TRAIN, 'pods.state.kubeshare.io "train" is forbidden: User "tom" cannot get'),
    ],
)
async def test_without_the_right_nothing_is_told(
    state: State, user: str, path: str, what: str
) -> None:
    code, body = await state.ask(path, user)
    assert (code, body["code"], body["kind"]) == (403, 403, "Status")
    assert body["reason"] == "Forbidden"
    assert what in str(body["message"])


@pytest.mark.parametrize("path", [*PATHS, *DISCOVERY, f"{ROOT}/nothing", "/apis/x"])
async def test_without_a_name_nothing_is_told(state: State, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer unknown"}):
        code, body = await state.ask(path, **headers)
        assert (code, body["reason"]) == (401, "Unauthorized")


@pytest.mark.parametrize("token", ["root", "of-the-file"])
async def test_a_token_opens_the_same_paths_directly(state: State, token: str) -> None:
    for path in PATHS:
        code, _ = await state.ask(path, Authorization=f"Bearer {token}")
        assert code == 200
        assert state.seen[0] == "default"


async def test_a_users_own_token_gives_no_more_than_his_rights(state: State) -> None:
    code, _ = await state.ask(PODS, Authorization="Bearer jane")
    assert code == 403


async def test_a_pod_that_is_not_known_is_not_found(state: State) -> None:
    code, body = await state.ask(f"{ROOT}/namespaces/default/pods/other", "root")
    assert (code, body["reason"]) == (404, "NotFound")
    details = {"group": "state.kubeshare.io", "kind": "pods", "name": "other"}
    assert body["details"] == details


async def test_before_the_cluster_was_read_no_pod_is_unknown(state: State) -> None:
    state.ready = False
    code, body = await state.ask(f"{ROOT}/namespaces/default/pods/other", "root")
    assert (code, body["reason"]) == (503, "ServiceUnavailable")


@pytest.mark.parametrize("path", PATHS)
async def test_while_the_api_server_cannot_be_asked_nothing_is_told(
    state: State, path: str
) -> None:
    state.rights.away = True
    code, body = await state.ask(path, "jane")
    assert (code, body["reason"]) == (503, "ServiceUnavailable")


async def test_every_user_discovers_the_group(state: State) -> None:
    for path in DISCOVERY:
        assert (await state.ask(path, "nobody-special"))[0] == 200
    _, listed = await state.ask(ROOT, "tom")
    resources = listed["resources"]
    assert isinstance(resources, list)
    assert [(one["name"], one["namespaced"], one["verbs"]) for one in resources] == [
        ("gpus", False, ["get", "list"]),
        ("pods", True, ["get", "list"]),
        ("placementreviews", True, ["create"]),
        ("schedulers", True, ["list"]),
        ("snapshots", False, ["get"]),
    ]


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
async def test_aggregated_discovery_is_answered_in_the_version_asked_for(
    state: State, version: str
) -> None:
    wanted = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    headers = {"X-Remote-User": "tom", "Accept": f"{wanted},application/json"}
    async with state.client.get("/apis", headers=headers) as answer:
        assert answer.headers["Content-Type"] == wanted
        body = await answer.json()
    assert body["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    [item] = body["items"]
    assert item["metadata"]["name"] == "state.kubeshare.io"


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (GPUS, ["GPU-n1-0", "GPU-n1-1", "GPU-n2-0", "GPU-n2-1"]),
        (PODS, ["one", "two", "big"]),
        (TRAIN, ["train"]),
    ],
)
async def test_a_stock_kubectl_gets_a_table(state: State, path: str, names: list[str]) -> None:
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    code, body = await state.ask(path, "root", **headers)
    assert (code, body["kind"], body["apiVersion"]) == (200, "Table", "meta.k8s.io/v1")
    rows = body["rows"]
    assert isinstance(rows, list)
    assert [row["object"]["metadata"]["name"] for row in rows] == names


async def test_what_is_not_there_is_a_status(state: State) -> None:
    code, body = await state.ask(f"{ROOT}/nothing", "root")
    assert (code, body["kind"]) == (404, "Status")
    headers = {"X-Remote-User": "root"}
    async with state.client.post(GPUS, headers=headers) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (405, "MethodNotAllowed")
