"""What monitoring sees of quotas: HAMi's `hami_resource_quota_…`."""

from kubeshare_py.domain.cluster_objects import WatchedKind
from kubeshare_py.domain.events import ObjectsListed, PodGone
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.explain import figures as portions
from kubeshare_py.scheduling.explain.figures import quota_uses
from kubeshare_py.views.figures import QuotaUse
from tests.scheduling.charges.test_gpu_quotas import CORES, DIALECTS, GPU, MEM, MIB, Story

LISTED = ObjectsListed(WatchedKind.RESOURCE_QUOTA, ())


def uses(story: Story) -> dict[tuple[str, str], tuple[float, int | None]]:
    """By namespace and resource: what is used, in its units, and the limit."""
    found = [one for part in quota_uses(story.machine, DIALECTS.quota_names) for one in part]
    named = {(one.namespace, one.resource): (one.used / one.unit, one.limit) for one in found}
    assert len(named) == len(found)
    return named


def test_each_namespace_has_what_its_pods_hold_and_its_smallest_limit() -> None:
    story = Story()
    story.send(LISTED)
    story.limit("small", mem=4000)
    story.limit("large", mem=8000, cores=200)
    story.limit("none", namespace="empty", cores=0)
    assert story.create("a", {GPU: 2, MEM: 1500, CORES: 30}).startswith("GPU-")
    assert story.create("b", {GPU: 1, MEM: 100}, namespace="free").startswith("GPU-")
    assert uses(story) == {
        ("default", MEM): (3000, 4000),
        ("default", CORES): (60, 200),
        ("empty", MEM): (0, None),
        ("empty", CORES): (0, 0),
        ("free", MEM): (100, None),
        ("free", CORES): (0, None),
    }


def test_what_a_pod_held_ends_with_it() -> None:
    """A pod that has finished or is gone uses nothing of a quota."""
    story = Story()
    story.send(LISTED)
    story.create("a", {GPU: 1, MEM: 1000, CORES: 10})
    assert uses(story)["default", MEM] == (1000, None)
    story.send(PodGone(PodUid("uid-a"), stopped=True))
    assert uses(story) == {}


def test_while_quotas_are_not_known_nothing_is_said() -> None:
    story = Story()
    story.create("a", {GPU: 1, MEM: 1000})
    assert uses(story) == {}
    story.send(ObjectsListed(WatchedKind.RESOURCE_QUOTA, None, "cannot be read"))
    assert uses(story) == {}


def test_namespaces_come_some_at_a_time() -> None:
    story = Story()
    story.send(LISTED)
    count = portions.NAMESPACES_A_PORTION + 1
    for number in range(count):
        story.limit("q", namespace=f"n{number:03}", mem=1)
    found = [*quota_uses(story.machine, DIALECTS.quota_names)]
    assert [len(one) for one in found] == [2 * portions.NAMESPACES_A_PORTION, 2]
    assert found[1][0] == QuotaUse(namespace="n128", resource=MEM, used=0, unit=MIB, limit=1)


def test_asking_leaves_nothing_behind() -> None:
    story = Story()
    story.send(LISTED)
    story.limit("q", namespace="elsewhere", mem=1)
    assert "ResourceQuotaNotFit" in story.create("a", {GPU: 1, MEM: 1000}, namespace="elsewhere")
    assert [*story.machine.quotas.holding()] == []
