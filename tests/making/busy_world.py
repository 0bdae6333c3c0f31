"""A world with all that goes on at once: gangs, reservations, preemption, forced deletions, plugins
that fail, labels that come and go, and other profiles."""

from collections.abc import Callable

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.configuration.scheduler import SchedulerConfiguration, read
from kubeshare_py.domain.effects import Bind, Evict
from kubeshare_py.domain.events import NodeSeen, PodGone, PodSeen
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.points import Depends, RowFilter
from kubeshare_py.framework.profile_making import PluginFactory, profiles
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.scheduling.machine import Machine, MachineEvent, configured_machine
from tests.making import a_claim, a_pod, a_shape
from tests.making.world import GANG_ACTIONS, NODES, GangWorld, Step, scrambled
from tests.scheduling.pod_groups.test_any_gang_history import some_gang_steps


class Fickle:
    """Lets every node through, and fails for one kind of shapes while a node is `broken`."""

    name = "Fickle"
    depends = Depends.ROW

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """One question for all shapes."""

        def ask(rows: Rows) -> IntArray:
            broken, _ = rows.labels("broken")
            if shape.claim is not None and shape.claim.milli == 443 and broken.any():
                raise ValueError("this node is broken")
            return rows.unschedulable * 0

        return ask


FACTORIES: dict[str, PluginFactory] = {**IN_TREE, "Fickle": Fickle}


def a_configuration(number: int) -> SchedulerConfiguration:
    """Other scores for other numbers."""
    score = {"disabled": [{"name": "*"}], "enabled": [{"name": ("BinPack", "Spread")[number % 2]}]}
    plugins = {
        "filter": {"enabled": [{"name": "Fickle"}]},
        "score": score,
        "cardScore": score,
    }
    return read(
        {
            "profiles": [{"plugins": plugins}],
            "reservationSeconds": 15,
            "forcedDeleteHoldSeconds": 30,
        }
    )


class BusyWorld(GangWorld):
    """Nothing checks its decisions; every event is logged with its effects."""

    def __init__(self, told: Callable[["BusyWorld"], None] = lambda world: None) -> None:
        """`told` is called after each event."""
        self.told = told
        super().__init__()
        self.begin_anew()

    def begin_anew(self) -> None:
        self.machine = a_busy_machine(f"test-{self.count}")

    def tell(self, event: MachineEvent) -> None:
        effects = self.machine.handle(event, self.now)
        self.log.append((event, self.now, tuple(effects)))
        self.sent += [effect for effect in effects if isinstance(effect, Bind)]
        self.evictions += [effect.uid for effect in effects if isinstance(effect, Evict)]
        self.told(self)

    def step(self, step: Step) -> None:
        action, which, how = step
        if action % 7 == 0:
            self.label(which, how)
        elif action % 7 == 1:
            self.urgent(which, how)
        elif action % 7 == 2 and how == 0:
            self.force(which)
        elif action % 7 == 3 and how % 4 == 1:
            self.replace_profiles(which)
        super().step(step)

    def label(self, which: int, how: int) -> None:
        """A node gets a zone or loses it, or breaks for a while."""
        name = NODES[which % len(NODES)]
        if name in self.nodes:
            labels = {"zone": f"z{how}"} if how % 3 else {}
            if how == 7:
                labels["broken"] = "yes"
            self.nodes[name] = replace(self.nodes[name], labels=labels)
            self.tell(NodeSeen(self.nodes[name]))

    def urgent(self, which: int, how: int) -> None:
        """A pod that others may be evicted for, or one that wants a zone."""
        self.count += 1
        zone = (("zone", f"z{how}"),) if how % 2 else ()
        shape = a_shape(a_claim((500, 1000, 443)[which % 3]), node_selector=zone)
        pod = a_pod(scrambled(self.count), shape, priority=10 + how)
        self.stored[pod.uid] = pod
        self.watch.append(PodSeen(pod))

    def force(self, which: int) -> None:
        """A bound pod is deleted by force: its cards are held for a while."""
        bound = sorted(uid for uid, pod in self.stored.items() if pod.node_name is not None)
        if bound:
            pod = self.stored.pop(bound[which % len(bound)])
            self.watch.append(PodSeen(replace(pod, deleting=True, grace_s=60)))
            self.watch.append(PodGone(pod.uid))

    def replace_profiles(self, which: int) -> None:
        """The configuration file changed."""
        configured = a_configuration(which)
        made = profiles(configured, FACTORIES)
        self.tell(ProfilesReplaced(made, configured.profiles))


def a_busy_machine(name: str) -> Machine:
    """A machine that gives reservations soon, evicts, and holds cards of lingering pods."""
    return configured_machine(a_configuration(0), FACTORIES, name)


def run(seed: int, told: Callable[[BusyWorld], None] = lambda world: None) -> BusyWorld:
    """A history of some hundred events."""
    steps = some_gang_steps(seed, 90)
    # The scheduler does not die.
    return BusyWorld(told).follow(one for one in steps if one[0] % GANG_ACTIONS != GANG_ACTIONS - 1)
