"""KubeShare 1.0's SharePods as a dialect of a profile."""

import pytest

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.dialects.dialect import (
    Dialect,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    ResultKeys,
    results_by,
)
from kubeshare_py.dialects.dialects import IN_TREE, DialectConflict, DialectTable
from kubeshare_py.dialects.pod_request import read
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.dialects.sharepod import SharePods
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import tag_of
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.request import GpuRequest
from tests.dialects.sharepod_pods import README

TABLE = DialectTable((SHAREDGPU, SharePods()))
NODE = PlacedNode(cards={}, offered={}, decided_at_ns=0)


def test_a_profile_reads_sharepods_beside_pods_of_kubeshare_2() -> None:
    found = read({}, README, table=TABLE)
    assert found.problem is None
    assert isinstance(found.request, GpuRequest)
    assert found.request.dialect == "sharepod"
    both = read({"sharedgpu/gpu_request": "0.5"}, README, table=TABLE).problem
    assert both is not None
    assert "asks in dialect sharedgpu, and" in str(both)
    assert "kubeshare/gpu_limit in dialect sharepod" in str(both)


def test_its_keys_as_labels_are_refused() -> None:
    problem = read({"kubeshare/gpu_request": "0.5"}, {}, table=TABLE).problem
    assert str(problem) == "kubeshare/gpu_request is an annotation, not a label"


def test_the_name_of_the_card_is_the_users_to_write_and_the_bindings() -> None:
    found = read({}, README | {"kubeshare/GPUID": "abcde"}, table=TABLE)
    assert found.stale_results == ()
    assert not TABLE.is_result("kubeshare/GPUID")
    tags = (tag_of("affinity=default/red"), tag_of("name=default/zxcvb"))
    charge = CardCharge(GpuUuid("GPU-1"), 500, 1, tags=tags)
    allocation = Allocation(token=DecisionToken("t"), cards=(charge,))
    assert results_by(SharePods(), allocation, NODE) == {"kubeshare/GPUID": "zxcvb"}
    without = Allocation(token=DecisionToken("t"), cards=(CardCharge(GpuUuid("GPU-1"), 1, 1),))
    assert results_by(SharePods(), without, NODE) == {}


def test_containers_of_its_pods_see_a_share() -> None:
    assert TABLE.visibility(PodAsk({}, README)) is CardVisibility.SHARE
    assert TABLE.visibility(PodAsk({}, {"kubeshare/gpu_request": "x"})) is CardVisibility.SHARE
    assert TABLE.visibility(PodAsk({}, {})) is CardVisibility.VOID


def test_what_is_answered_is_asked_for_too() -> None:
    class Mute(Dialect):
        name = "mute"
        owns = OwnedKeys()
        result_keys = ResultKeys(answered=frozenset({"mute/card"}))

        def read(self, pod: PodAsk) -> None:
            return None

    with pytest.raises(DialectConflict, match="mute/card is answered"):
        DialectTable((Mute(),))


def test_no_other_dialect_of_the_project_owns_its_keys() -> None:
    made = [factory() for factory in IN_TREE.values()]
    table = DialectTable([one for one in made if isinstance(one, Dialect)])
    assert table.dialect_of(PodAsk({}, README)) is not None
