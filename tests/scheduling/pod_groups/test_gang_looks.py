"""Looks at a gang's shapes, which may go on in a later iteration."""

from collections import Counter

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, read
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.snapshot import WithoutReservations
from kubeshare_py.scheduling.pod_cycle import Assumer
from kubeshare_py.scheduling.pod_groups.gang_places import GangPlaces
from kubeshare_py.scheduling.pod_groups.gang_plan import GangPlan
from kubeshare_py.scheduling.state import new_state
from tests.making import a_claim, a_gpu, a_node, a_shape

N1 = NodeName("n1")


def test_a_look_that_goes_on_asks_the_snapshot_that_is_shown_then() -> None:
    state = new_state(profiles(read(None), IN_TREE), 0.0)
    ledger, in_use = state.ledger, state.profiles
    ledger.put_node(a_node(N1))
    ledger.put_cards(N1, (a_gpu("a"),))
    cards = (CardCharge(a_gpu("a").uuid, 1000, 0),)
    ledger.reserve(PodUid("r"), N1, (), Allocation(token=DecisionToken(""), cards=cards))
    places = GangPlaces(ledger, in_use.profiles, in_use.boundary)
    plan = GangPlan(state, Assumer(state, "test"), places)
    shapes = Counter((SCHEDULER_NAME, a_shape(a_claim(milli))) for milli in (300, 400))
    snapshots = in_use.snapshots
    looks = plan.each_look(lambda: snapshots.shown, shapes, 1)
    assert next(looks) is False
    charge = ledger.reservations[PodUid("r")]
    without = WithoutReservations(snapshots.actual)
    without.leave_out({ledger.columns.row_of[N1]: [charge]})
    without.follow()
    snapshots.shown = without
    assert next(looks) is True
