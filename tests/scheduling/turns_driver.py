"""A machine whose nodes have locks, and the locks as they are in the cluster."""

from dataclasses import replace

from kubeshare_py.domain.effects import Effect, WriteObject
from kubeshare_py.domain.events import NodeSeen, ObjectWritten, WriteOutcome
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.domain.needs.object_writes import LockNode
from kubeshare_py.domain.node import NodeLock
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.builders import a_pod
from tests.scheduling.gang_driver import GangDriver

KEY = "example.com/lock"
FREE = NodeLock(dialect="sharedgpu", key=KEY)


def held_by(owner: str, key: str = KEY) -> NodeLock:
    """The lock as this pod has it."""
    return replace(FREE, key=key, text=f"since,default,{owner}", owner=PodKey("default", owner))


class TurnsDriver(GangDriver):
    """Writes are kept until the test answers them; `show_lock` is what the watch shows."""

    def __init__(self, cards: dict[str, int], locks: tuple[NodeLock, ...] = (FREE,)) -> None:
        self.writes: list[WriteObject] = []
        super().__init__(cards, locks=locks)

    def tell(self, *events: object) -> list[Effect]:
        effects = super().tell(*events)  # type: ignore[arg-type]
        self.writes += [effect for effect in effects if isinstance(effect, WriteObject)]
        return effects

    def wrote(
        self, outcome: WriteOutcome = WriteOutcome.DONE, message: str = "", at: int = -1
    ) -> None:
        """The API server answers the last write, or another one."""
        effect = self.writes[at]
        self.tell(ObjectWritten(effect.uid, effect.token, effect.write, outcome, message))

    def show_lock(self, lock: NodeLock | None, node: str = "n1") -> None:
        """The watch shows the node with this lock; None: its plugin needs none any more."""
        known = self.machine.ledger.columns.nodes[
            self.machine.ledger.columns.row_of[NodeName(node)]
        ]
        assert known is not None
        self.tell(NodeSeen(replace(known, locks=() if lock is None else (lock,))))

    def asked(self) -> list[tuple[str, str]]:
        """The node and the pod of each write so far."""
        writes = [effect.write for effect in self.writes]
        return [(one.node, one.pod) for one in writes if isinstance(one, LockNode)]

    def states(self, *names: str) -> list[PodState]:
        """The states of these pods."""
        return [self.machine.records[a_pod(name).uid].state for name in names]
