"""Every right that the chart gives, with the test in which an account needs it."""

from collections.abc import Iterator

import pytest

from tests.architecture.sources import ROOT
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.deploy.test_rendering import SUBJECT, VARIANTS, of, rendered

pytestmark = pytest.mark.real_only("it needs Helm, which make e2e builds")

STORIES = "tests/stories"
SCHEDULER = (
    f"{STORIES}/test_rights.py::test_it_asks_for_everything_that_it_may_and_for_nothing_else"
)
LOOKS = (
    f"{STORIES}/test_operations.py::test_a_service_account_may_look_with_the_roles_that_come_along"
)
READS = f"{STORIES}/test_state_group.py::test_a_user_reads_the_pods_of_her_namespace_and_no_others"
REVIEWS = (
    f"{STORIES}/test_state_group.py"
    "::test_a_user_who_may_create_pods_asks_what_would_become_of_one_and_others_do_not"
)
SCRAPED = "tests/deploy/test_driver_to_pod.py::test_pods_get_the_cards_that_the_drivers_list"
ANNOTATES = (
    "tests/deploy/test_annotated_nodes.py::test_a_collector_writes_its_own_cards_on_its_own_node"
)
TRUSTED = "tests/policies/test_environment.py::test_the_api_server_is_told_to_trust_every_replica"
AGENTS = "tests/deploy/test_node_agent.py::test_an_agent_reads_its_pods_and_writes_on_its_own_node"
PLUGINS = "tests/deploy/test_node_agent.py::test_device_plugins_read_the_pod_whose_container_starts"
AGGREGATES = (
    "tests/deploy/test_node_agent.py::test_the_aggregator_reads_pods_and_can_do_nothing_else"
)
FORESEES = "tests/stories/test_what_if.py::test_only_who_may_get_a_snapshot_asks_what_if"
UNHEALTHY = "tests/stories/test_unhealthy_config_maps.py::test_a_listed_card_takes_no_new_pods"
ASKS = "tests/stories/test_hami_plugin.py::test_a_silent_plugin_is_asked_for_a_sign_of_life"
CONTROLS = (
    "tests/deploy/test_sharepods.py"
    "::test_the_controller_does_all_its_work_with_the_rights_of_the_chart"
)
SHARES = (
    "tests/deploy/test_sharepods.py::test_users_may_do_with_share_pods_what_they_may_do_with_pods"
)
OF_SHARE_PODS = "kubeshare.nthu/sharepods"
WEBHOOKS = "admissionregistration.k8s.io/mutatingwebhookconfigurations"
#: The role that comes with `auto` without a url; EVERYTHING has another source.
FINDS = "kubeshare-scheduler-prometheuses"
#: All rights of these roles: that story compares each with what the scheduler asks for.
OF_SCHEDULER = {"kubeshare-scheduler", "kubeshare-scheduler-front-proxy", FINDS}
#: The rights of all others, as "role: verb what".
NEEDED = {
    "kubeshare-gpu-reader: list state.kubeshare.io/gpus": LOOKS,
    "kubeshare-gpu-reader: get state.kubeshare.io/gpus": LOOKS,
    "kubeshare-state-reader: list state.kubeshare.io/pods": READS,
    "kubeshare-state-reader: get state.kubeshare.io/pods": READS,
    "kubeshare-state-reader: list state.kubeshare.io/schedulers": REVIEWS,
    "kubeshare-pod-asker: create state.kubeshare.io/placementreviews": REVIEWS,
    "kubeshare-snapshot-reader: get state.kubeshare.io/snapshots": FORESEES,
    "kubeshare-metrics: get /metrics": SCRAPED,
    "kubeshare-collector: patch /nodes": ANNOTATES,
    "kubeshare-node-agent: get /pods": PLUGINS,
    "kubeshare-node-agent: list /pods": AGENTS,
    "kubeshare-node-agent: watch /pods": AGENTS,
    "kubeshare-node-agent: patch /nodes": AGENTS,
    "kubeshare-aggregator: list /pods": AGGREGATES,
    "kubeshare-aggregator: watch /pods": AGGREGATES,
    "kubeshare-scheduler-unhealthy-cards: list /configmaps": UNHEALTHY,
    "kubeshare-scheduler-unhealthy-cards: watch /configmaps": UNHEALTHY,
    "kubeshare-scheduler-device-plugins: patch /nodes": ASKS,
    f"kubeshare-controller: update {OF_SHARE_PODS}/finalizers": CONTROLS,
    f"kubeshare-controller: patch {OF_SHARE_PODS}/status": CONTROLS,
    **{
        f"kubeshare-controller: {verb} {OF_SHARE_PODS}": CONTROLS
        for verb in ("list", "watch", "patch")
    },
    **{
        f"kubeshare-controller: {verb} /pods": CONTROLS
        for verb in ("get", "list", "watch", "create", "delete", "patch")
    },
    **{
        f"kubeshare-controller: {verb} events.k8s.io/events": CONTROLS
        for verb in ("create", "patch")
    },
    **{
        f"kubeshare-controller: {verb} coordination.k8s.io/leases kubeshare-controller": CONTROLS
        for verb in ("get", "update")
    },
    **{
        f"kubeshare-sharepods-view: {verb} {OF_SHARE_PODS}": SHARES
        for verb in ("get", "list", "watch")
    },
    **{
        f"kubeshare-sharepods-edit: {verb} {OF_SHARE_PODS}": SHARES
        for verb in ("create", "update", "patch", "delete", "deletecollection")
    },
    f"kubeshare-admission: get {WEBHOOKS} kubeshare-admission": TRUSTED,
    f"kubeshare-admission: patch {WEBHOOKS} kubeshare-admission": TRUSTED,
}
#: Everything that brings a role along is on.
EVERYTHING = (
    'admission.by="webhook"',
    "admission.others=true",
    "collector.annotateNode=true",
    "config.inventory.unhealthyConfigMaps=true",
    'config.inventory.source="hami"',
    "mps.enabled=true",
    "nodeAgent.enabled=true",
    'nodeAgent.devices=["nvidia.com/gpu"]',
    "aggregator.enabled=true",
    "dashboard.enabled=true",
    "sharePods.enabled=true",
    'config.profiles=[{"isolation": ["mps", "none"], "dialects": [{"name": "hami"}]}]',
    f"readers={SUBJECT}",
    f"scrapers={SUBJECT}",
)


@pytest.fixture(autouse=True)
def built(bare: ControlPlane) -> None:
    """Helm is there."""


def roles(objects: list[Json]) -> list[Json]:
    return [*of(objects, "ClusterRole"), *of(objects, "Role")]


def rights(role: Json) -> Iterator[str]:
    """Each as a sentence."""
    for rule in role["rules"]:
        what = list(rule.get("nonResourceURLs", ()))
        for group in rule.get("apiGroups", ()):
            for resource in rule["resources"]:
                names = rule.get("resourceNames", [""])
                what += [f"{group}/{resource} {name}".strip() for name in names]
        yield from (
            f"{role['metadata']['name']}: {verb} {one}" for verb in rule["verbs"] for one in what
        )


def verbs(found: list[Json]) -> set[str]:
    """The same of all roles, without names, which follow the values."""
    sentences = (right.partition(": ")[2] for role in found for right in rights(role))
    return {" ".join(one.split(" ")[:2]) for one in sentences}


def everything() -> list[Json]:
    """All roles that there can be."""
    found = [one for one in roles(rendered()) if one["metadata"]["name"] == FINDS]
    return [*roles(rendered(*EVERYTHING)), *found]


def test_prometheuses_are_read_only_to_find_the_one_that_counts() -> None:
    for values in ('config.inventory.url="http://here:9090"', 'config.inventory.source="scrape"'):
        assert FINDS not in {one["metadata"]["name"] for one in roles(rendered(values))}


def test_every_right_is_needed_by_a_test() -> None:
    found = everything()
    assert {role["metadata"]["name"] for role in found} >= OF_SCHEDULER
    others = [role for role in found if role["metadata"]["name"] not in OF_SCHEDULER]
    assert {right for role in others for right in rights(role)} == {*NEEDED}


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_other_values_bring_a_right_along(variant: str) -> None:
    known = verbs(everything())
    assert verbs(roles(rendered(*VARIANTS[variant]))) <= known


@pytest.mark.parametrize("test", sorted({SCHEDULER, *NEEDED.values()}))
def test_each_of_these_tests_is_there(test: str) -> None:
    file, name = test.split("::")
    assert f"def {name}(" in (ROOT / file).read_text()
