"""Snapshots of the cluster without the reservations that a pod or gang may take."""

from collections import OrderedDict
from collections.abc import Sequence

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.framework.snapshot import Snapshot, Snapshots, WithoutReservations

#: The most snapshots that are kept: pods and gangs that are tried one after the other mostly see
#: the same reservations.
MAX_KEPT = 4


class ReservedSnapshots:
    """Makes these snapshots, and keeps the last ones, which then only follow what changed."""

    def __init__(self, ledger: Ledger, snapshots: Snapshots) -> None:
        self._ledger = ledger
        self._snapshots = snapshots
        self._actual = snapshots.actual
        #: By key, and as of which change of reservations.
        self._kept: OrderedDict[object, tuple[WithoutReservations, int]] = OrderedDict()

    def show(self, key: object, uids: Sequence[PodUid]) -> None:
        """Show the cluster without the reservations of these pods; `key` tells sets apart."""
        self._snapshots.shown = self._without(key, uids) if uids else self._snapshots.actual

    def _without(self, key: object, uids: Sequence[PodUid]) -> Snapshot:
        if self._actual is not self._snapshots.actual:
            self._actual = self._snapshots.actual
            self._kept.clear()
        changes = self._ledger.reservation_changes
        snapshot, seen = self._kept.pop(key, (None, -1))
        if snapshot is None:
            snapshot = self._another()
        if seen != changes:
            snapshot.leave_out(self._by_row(uids))
        snapshot.follow()
        self._kept[key] = snapshot, changes
        return snapshot

    def _another(self) -> WithoutReservations:
        """A snapshot to show something else: the one shown last of all, once there are enough."""
        if len(self._kept) < MAX_KEPT:
            return WithoutReservations(self._actual)
        return self._kept.popitem(last=False)[1][0]

    def _by_row(self, uids: Sequence[PodUid]) -> dict[int, list[Charge]]:
        rows, charges = self._ledger.columns.row_of, self._ledger.reservations
        found: dict[int, list[Charge]] = {}
        for uid in uids:
            found.setdefault(rows[charges[uid].node], []).append(charges[uid])
        return found
