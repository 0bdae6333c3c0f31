"""Pods of one second are tried in the order in which they arrived, whatever their uids are."""

import hashlib
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.events import BindSlotsFree, Event, PodGone, PodSeen, PodsListed
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.values import replace
from tests.making import Driver, a_claim, a_group, a_pod, a_shape
from tests.scale import examples

WHOLE = a_shape(a_claim(1000))
LONGEST_BACKOFF_S = 10.0
SECONDS = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z")


def pod_of(name: str, second: int = 0, namespace: str = "default", priority: int = 0) -> Pod:
    """A pod for a whole card whose uid says nothing about when it came."""
    uid = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()
    made = a_pod(uid, WHOLE, created=SECONDS[second], priority=priority)
    return replace(made, key=PodKey(namespace, name))


@dataclass
class Line:
    """One card that is taken at first, pods that wait for it, and who was heard of when."""

    driver: Driver = field(default_factory=lambda: Driver({"n1": 1}))
    heard: list[Pod] = field(default_factory=list)
    #: Stored, but not heard of: their watch lines are lost.
    missed: list[Pod] = field(default_factory=list)
    blocker: Pod = field(default_factory=lambda: a_pod("blocker", WHOLE))

    def __post_init__(self) -> None:
        bind = self.driver.place(self.blocker)
        self.blocker = replace(self.blocker, node_name=bind.node, allocation=bind.allocation)

    def tell(self, event: Event) -> None:
        self.driver.tell(event, BindSlotsFree(9))

    def watch(self, pod: Pod) -> None:
        self.tell(PodSeen(pod))
        self.heard.append(pod)

    def relist(self, backwards: bool) -> None:
        found = [self.blocker, *self.heard, *self.missed]
        self.tell(PodsListed(tuple(reversed(found) if backwards else found), self.driver.now))
        self.heard += sorted(self.missed, key=lambda pod: (pod.key.namespace, pod.key.name))
        self.missed.clear()

    def change(self, number: int) -> None:
        """A label makes the pod leave its line and join it again."""
        changed = replace(self.heard[number], label_priority=1 - self.heard[number].label_priority)
        self.heard[number] = changed
        self.tell(PodSeen(changed))

    def order(self) -> list[str]:
        """Whenever a pod gets the card it is deleted; those that were edited often are back."""
        self.driver.now += LONGEST_BACKOFF_S
        self.driver.decide()
        found, holder = [], self.blocker
        for _ in self.heard:
            self.driver.tell(PodGone(holder.uid))
            (bind,) = self.driver.decide()
            found.append(str(bind.key))
            holder = next(pod for pod in self.heard if pod.uid == bind.uid)
        return found

    def expected(self) -> list[str]:
        ranks = {
            (-pod.priority, -pod.label_priority, pod.created, number): str(pod.key)
            for number, pod in enumerate(self.heard)
        }
        return [ranks[rank] for rank in sorted(ranks)]


NEW = st.tuples(st.sampled_from("abc"), st.integers(0, 1), st.integers(0, 1))


@examples(150)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("watch"), NEW),
            st.tuples(st.just("miss"), NEW),
            st.tuples(st.just("relist"), st.booleans()),
            st.tuples(st.just("change"), st.integers(0, 20)),
        ),
        max_size=25,
    )
)
def test_creation_then_arrival_and_for_lists_namespace_and_name(
    history: list[tuple[str, object]],
) -> None:
    line = Line()
    for number, (action, what) in enumerate(history):
        match action, what:
            case "watch" | "miss", (str(namespace), int(second), int(priority)):
                pod = pod_of(f"p{97 * number % 31}", second, namespace, priority)
                line.watch(pod) if action == "watch" else line.missed.append(pod)
            case "relist", bool(backwards):
                line.relist(backwards)
            case "change", int(which) if line.heard:
                line.change(which % len(line.heard))
    line.relist(False)
    assert line.order() == line.expected()


def test_of_24_pods_of_one_second_the_first_eight_get_the_eight_cards() -> None:
    driver = Driver({"n1": 8})
    pods = [pod_of(f"p{number}") for number in range(24)]
    driver.tell(*map(PodSeen, pods))
    assert [bind.key for bind in driver.decide()] == [pod.key for pod in pods[:8]]


@pytest.mark.parametrize("first", [0, 1])
def test_a_gang_of_the_same_second_stands_where_its_first_member_would(first: int) -> None:
    driver = Driver({"n1": 2})
    gang = [replace(pod_of(f"g{number}"), group=a_group(2)) for number in range(2)]
    single = pod_of("single")
    arrivals = [gang[0], single, gang[1]] if first == 0 else [single, *gang]
    driver.tell(*map(PodSeen, arrivals))
    names = [bind.key.name for bind in driver.decide()]
    assert names == (["g0", "g1"] if first == 0 else ["single"])


def test_members_above_the_minimum_follow_their_gang_in_the_order_of_their_arrival() -> None:
    driver = Driver({"n1": 3})
    group = a_group(1, headcount=3)
    gang = [replace(pod_of(f"g{number}"), group=group) for number in range(3)]
    driver.tell(*map(PodSeen, [gang[2], pod_of("single"), gang[1], gang[0]]))
    assert [bind.key.name for bind in driver.decide()] == ["g2", "g1", "g0"]
