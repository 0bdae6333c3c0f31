"""ResourceQuotas that limit what pods of a namespace hold of GPUs, through the machine."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.cluster_objects import ObjectKey, WatchedKind
from kubeshare_py.domain.effects import Bind, Effect, ReportWaiting
from kubeshare_py.domain.events import (
    BindSlotsFree,
    Event,
    InventoryRead,
    NodesListed,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
    PodsListed,
)
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.quota import QuotaObject, ScopeRequirement
from kubeshare_py.manifests.events import node_events
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields
from tests.making import a_gpu, a_machine

Json = dict[str, Any]
GPU, MEM, PERCENT = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"
CORES = "nvidia.com/gpucores"
MIB = 2**20
DIALECTS = Dialects({"kubeshare-scheduler": (SHAREDGPU, Hami())})
NODE: Json = {
    "metadata": {"name": "n1", "annotations": {"hami.io/node-nvidia-register": "[]"}},
    "status": {"allocatable": {"cpu": "64", "memory": "512Gi", "pods": "500"}},
}


class Story:
    """A machine with a node of four cards, as in HAMi's test of quotas; time goes on by itself."""

    def __init__(self, *existing: Json) -> None:
        self.machine, self.now = a_machine(), 0.0
        cards = tuple(
            a_gpu(f"GPU-{at}", index=at, memory_bytes=mib * MIB)
            for at, mib in enumerate((2000, 8000, 4000, 6000))
        )
        node = node_events(DIALECTS).reduce(
            msgspec.json.decode(msgspec.json.encode(NODE), type=NodeFields)
        )
        self.send(
            PodsListed(tuple(map(read, existing)), 0.0),
            NodesListed((node,)),
            InventoryRead(((NodeName("n1"), cards),)),
        )

    def send(self, *events: Event) -> list[Effect]:
        """The effects of these events, and of a decision a minute later."""
        self.now += 60
        found: list[Effect] = []
        for event in (*events, BindSlotsFree(32)):
            found.extend(self.machine.handle(event, self.now))
        return found

    def limit(self, name: str, namespace: str = "default", **limits: int) -> list[Effect]:
        named = {"mem": MEM, "cores": CORES}
        pairs = tuple(sorted((named[key], amount) for key, amount in limits.items()))
        return self.send(ObjectSeen(QuotaObject(name=name, namespace=namespace, hard_limits=pairs)))

    def limit_class(self, name: str, mem: int) -> list[Effect]:
        """A quota of the pods of one PriorityClass, named as the class."""
        scope = ScopeRequirement(scope="PriorityClass", operator="In", values=(name,))
        limits = ((MEM, mem),)
        return self.send(
            ObjectSeen(
                QuotaObject(name=name, namespace="default", hard_limits=limits, scopes=(scope,))
            )
        )

    def create(
        self, name: str, *containers: dict[str, int], namespace: str = "default", of: str = ""
    ) -> str:
        """What becomes of a new pod, `of` a PriorityClass: its card, or why it waits."""
        made = pod(name, *containers, namespace=namespace)
        made["spec"]["priorityClassName"] = of
        effects = self.send(PodSeen(read(made)))
        for effect in effects:
            if isinstance(effect, Bind) and effect.key.name == name:
                return ",".join(card.uuid for card in effect.allocation.cards)
            if isinstance(effect, ReportWaiting) and effect.key.name == name:
                return effect.diagnosis.sentence
        raise AssertionError(f"nothing became of {name}: {effects}")


def pod(
    name: str, *containers: dict[str, int], namespace: str = "default", **metadata: Any
) -> Json:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", **metadata},
        "spec": {
            "schedulerName": "kubeshare-scheduler",
            "containers": [
                {"name": f"c{at}", "resources": {"limits": {k: str(v) for k, v in one.items()}}}
                for at, one in enumerate(containers)
            ],
        },
        "status": {"phase": "Pending"},
    }


def read(written: Json) -> Any:
    return to_domain(msgspec.json.decode(msgspec.json.encode(written), type=PodFields), DIALECTS)


def test_pods_wait_from_the_limit_on_and_go_on_when_others_end() -> None:
    """A quota counts what all pods hold: two cards of 2000 MiB are 4000."""
    story = Story()
    story.limit("q", mem=4000, cores=200)
    assert story.create("a", {GPU: 2, MEM: 2000, CORES: 60})
    assert story.create("b", {GPU: 1, MEM: 1}) == (
        "ResourceQuotaNotFit: quota limits.nvidia.com/gpumem of the namespace is 4000,"
        " 4000 are used, and the pod asks for 1"
    )
    assert story.create("other", {GPU: 1, MEM: 1}, namespace="elsewhere").startswith("GPU-")
    effects = story.send(PodGone(PodUid("uid-a"), stopped=True))
    assert [one.key.name for one in effects if isinstance(one, Bind)] == ["b"]


def test_what_a_pod_has_alone_counts_as_it_was_asked_for() -> None:
    """Two cards of 2000 MiB and all cores pass under 4000 and 200."""
    story = Story()
    story.limit("q", mem=4000, cores=200)
    assert story.create("a", {GPU: 2, MEM: 2000, CORES: 100}).startswith("GPU-")
    assert "gpucores of the namespace is 200, 200 are used" in story.create(
        "b", {GPU: 1, MEM: 0, CORES: 1, PERCENT: 1}
    )


@pytest.mark.parametrize(("limit", "waits"), [(1000, True), (4000, False)])
def test_percentages_count_on_the_card_that_was_chosen(limit: int, waits: bool) -> None:
    """HAMi's webhook does not count them."""
    story = Story()
    story.limit("q", mem=limit)
    found = story.create("a", {GPU: 1, PERCENT: 50, CORES: 0})
    assert found.startswith("ResourceQuotaNotFit") is waits


def test_a_limit_of_0_blocks_all_and_ends_with_its_quota() -> None:
    """0 is a limit; a namespace without a quota has none."""
    story = Story()
    story.limit("q", mem=0)
    assert "is 0, 0 are used, and the pod asks for 100" in story.create("a", {GPU: 1, MEM: 100})
    gone = ObjectGone(WatchedKind.RESOURCE_QUOTA, ObjectKey("default", "q"))
    assert any(isinstance(effect, Bind) for effect in story.send(gone))


def test_a_changed_limit_counts_at_once() -> None:
    """There is no moment without one."""
    story = Story()
    story.limit("q", mem=0)
    assert "is 0" in story.create("a", {GPU: 1, MEM: 100})
    assert not any(isinstance(effect, Bind) for effect in story.limit("q", mem=99))
    assert any(isinstance(effect, Bind) for effect in story.limit("q", mem=100))


def test_of_two_quotas_the_smaller_limit_counts() -> None:
    """In HAMi the two overwrite each other, and deleting one lifts both."""
    story = Story()
    story.limit("large", mem=4000)
    story.limit("small", mem=2000)
    assert "is 2000" in story.create("a", {GPU: 1, MEM: 3000})
    effects = story.send(ObjectGone(WatchedKind.RESOURCE_QUOTA, ObjectKey("default", "small")))
    assert any(isinstance(effect, Bind) for effect in effects)


def test_pods_that_were_bound_before_count() -> None:
    """What they hold is read from their annotations."""
    text = "GPU-1,NVIDIA,3000,50:;"
    old = pod("old", {GPU: 1, MEM: 3000, CORES: 50})
    old["metadata"]["annotations"] = {"hami.io/vgpu-devices-allocated": text}
    old["spec"]["nodeName"] = "n1"
    story = Story(old)
    story.limit("q", mem=4000)
    assert "3000 are used" in story.create("a", {GPU: 1, MEM: 1001})
    assert story.create("b", {GPU: 1, MEM: 1000}).startswith("GPU-")


@pytest.mark.parametrize(
    ("init", "app", "slots", "used"),
    [
        (3000, 2000, "GPU-1,NVIDIA,3000,0:;GPU-1,NVIDIA,2000,0:;", 3000),
        (2000, 3000, "GPU-1,NVIDIA,2000,0:;GPU-1,NVIDIA,3000,0:;", 3000),
        (2000, 3000, "GPU-3,NVIDIA,2000,0:;GPU-1,NVIDIA,3000,0:;", 5000),
        (3000, 2000, "GPU-3,NVIDIA,3000,0:;GPU-1,NVIDIA,2000,0:;", 5000),
    ],
)
def test_quotas_count_of_init_containers_that_hami_placed_what_the_ledger_counts(
    init: int, app: int, slots: str, used: int
) -> None:
    """The larger counts, card by card. The second is one that asks for no more."""
    old = pod("old", {GPU: 1, MEM: app})
    old["spec"]["initContainers"] = [
        {"name": "i", "resources": {"limits": {GPU: "1", MEM: str(init)}}}
    ]
    old["metadata"]["annotations"] = {"hami.io/vgpu-devices-allocated": slots}
    old["spec"]["nodeName"] = "n1"
    story = Story(old)
    story.limit("q", mem=6000)
    assert f"{used} are used" in story.create("a", {GPU: 1, MEM: 6001})
    columns = story.machine.ledger.columns
    held = columns.capacity_bytes - columns.free_bytes
    assert held.sum() == used * MIB


def test_pods_of_other_dialects_count_and_are_not_refused() -> None:
    story = Story()
    story.limit("q", mem=1000)
    labels = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0",
              "sharedgpu/gpu_mem": str(3000 * MIB)}  # fmt: skip
    effects = story.send(PodSeen(read(pod("own", {}, labels=labels))))
    assert any(isinstance(effect, Bind) for effect in effects)
    assert "3000 are used" in story.create("a", {GPU: 1, MEM: 1})


def test_a_quota_with_scopes_holds_back_and_counts_the_pods_of_its_scopes_alone() -> None:
    story = Story()
    story.limit_class("batch", 1000)
    story.limit_class("prod", 4000)
    assert story.create("p1", {GPU: 1, MEM: 3000}, of="prod").startswith("GPU-")
    assert story.create("b1", {GPU: 1, MEM: 800}, of="batch").startswith("GPU-")
    assert story.create("none", {GPU: 1, MEM: 2000}).startswith("GPU-")
    assert story.create("b2", {GPU: 1, MEM: 201}, of="batch") == (
        "ResourceQuotaNotFit: quota limits.nvidia.com/gpumem of batch, for pods of its scopes, is"
        " 1000, 800 are used, and the pod asks for 201"
    )
    assert "of prod, for pods of its scopes, is 4000, 3000 are used" in story.create(
        "p2", {GPU: 1, MEM: 1001}, of="prod"
    )
    effects = story.send(PodGone(PodUid("uid-b1"), stopped=True))
    assert [one.key.name for one in effects if isinstance(one, Bind)] == ["b2"]


def test_all_pods_count_in_a_quota_without_scopes_beside_one_with_scopes() -> None:
    story = Story()
    story.limit_class("batch", 1000)
    story.limit("all", mem=1500)
    assert story.create("p1", {GPU: 1, MEM: 1000}, of="prod").startswith("GPU-")
    waits = story.create("b1", {GPU: 1, MEM: 600}, of="batch")
    assert "of the namespace is 1500, 1000 are used" in waits


def test_a_bound_pod_that_gets_a_deadline_counts_as_terminating_from_then_on() -> None:
    """activeDeadlineSeconds is one of the few fields of a pod that may be changed."""
    story = Story()
    scope = (ScopeRequirement(scope="NotTerminating"),)
    limits = ((MEM, 1000),)
    story.send(
        ObjectSeen(QuotaObject(name="q", namespace="default", hard_limits=limits, scopes=scope))
    )
    assert story.create("a", {GPU: 1, MEM: 800}).startswith("GPU-")
    assert "800 are used" in story.create("b", {GPU: 1, MEM: 500})
    made = pod("a", {GPU: 1, MEM: 800})
    made["spec"] |= {"nodeName": "n1"}
    made["metadata"]["annotations"] = {"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,800,0:;"}
    story.send(PodSeen(read(made)))
    made["spec"] |= {"activeDeadlineSeconds": 60}
    effects = story.send(PodSeen(read(made)))
    assert [one.key.name for one in effects if isinstance(one, Bind)] == ["b"]


def test_of_many_namespaces_only_the_quotas_of_the_pods_own_are_looked_at() -> None:
    """Counted by questions about other namespaces' limits, not timed."""

    class Asked(tuple[tuple[str, int], ...]):
        asked = 0

        def __iter__(self) -> Any:
            Asked.asked += 1
            return super().__iter__()

    story = Story()
    for at in range(50):
        limits = Asked(((MEM, 1),))
        quota = QuotaObject(name="q", namespace=f"other-{at}", hard_limits=limits)
        story.send(ObjectSeen(quota))
    story.limit("q", mem=4000)
    story.create("first", {GPU: 1, MEM: 1})
    Asked.asked = 0
    assert story.create("second", {GPU: 1, MEM: 1}).startswith("GPU-")
    assert not Asked.asked
