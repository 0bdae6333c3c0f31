"""The ledger's rule as filters says of many rows what the ledger says of one placement."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.priority_sort import PrioritySort
from kubeshare_py.cluster.charge import refusal
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.points import Ground
from kubeshare_py.framework.profile_making import warnings
from kubeshare_py.framework.result_cache import Choice
from kubeshare_py.framework.scheduler_profile import Profile, unguarded
from tests.framework.test_evaluator import PROFILES
from tests.making import GIB, a_claim, a_gpu, a_machine, a_node, a_shape, some_gpus, whole
from tests.plugins.random_clusters import CLAIMS, NODES, Nodes, random_cluster
from tests.scale import examples

BARE = Profile(scheduler_name="test", queue_sort=PrioritySort())


def charges(ledger: Ledger, claim: GpuClaim, choice: Choice) -> Allocation:
    columns, row = ledger.columns, choice.row
    cards = []
    for slot in choice.slots:
        model = columns.model_names[columns.model[row, slot]]
        capacity = columns.capacity_bytes.item(row, slot)
        memory = claim.bytes_of(capacity, columns.share_bytes.item(row, slot), model)
        uuid = columns.uuids[row][slot]
        milli = claim.charged_milli(columns.capacity_milli.item(row, slot), model)
        charge = CardCharge(uuid, milli, memory, model, exclusive=claim.exclusive)
        cards.append(charge)
    return Allocation(token=DecisionToken("t"), cards=tuple(cards))


def refused(ledger: Ledger, shape: Shape, name: str, *slots: int) -> str | None:
    row, claim = ledger.columns.row_of[NodeName(name)], shape.claim
    allocation = charges(ledger, claim, Choice(row, slots)) if claim else None
    return refusal(ledger.columns, row, shape.resources, allocation, shape.needs_port)


@examples(150)
@given(NODES, CLAIMS)
def test_rows_fit_where_the_ledger_would_take_the_claim(nodes: Nodes, claim: GpuClaim) -> None:
    ledger, shape = random_cluster(nodes).ledger, a_shape(claim)
    fits = Evaluator(BARE, ledger).masks(shape) == 0
    for name, row in ledger.columns.row_of.items():
        enough = 0
        for slot in range(len(ledger.columns.uuids[row])):
            memory = ledger.columns.capacity_bytes.item(row, slot)
            small = claim.exclusive and memory < (claim.memory_bytes or 0)
            enough += refused(ledger, shape, name, slot) is None and not small
        assert bool(fits[row]) == (enough >= claim.count), name


@examples(150)
@given(NODES, st.lists(CLAIMS, min_size=1, max_size=3))
def test_the_ledger_takes_what_the_default_profile_chooses(
    nodes: Nodes, claims: list[GpuClaim]
) -> None:
    ledger = random_cluster(nodes).ledger
    evaluator = Evaluator(PROFILES["default"], ledger)
    for claim in claims:
        choice = evaluator.best(a_shape(claim))
        if choice is not None:
            name = ledger.columns.names[choice.row] or ""
            assert refused(ledger, a_shape(claim), name, *choice.slots) is None


def a_ledger(**fields: int) -> Ledger:
    ledger = Ledger()
    ledger.put_node(a_node("n1", **fields))
    ledger.put_cards(NodeName("n1"), some_gpus("n1", 2))
    return ledger


def test_every_kind_of_too_much_is_refused_and_named() -> None:
    ledger = a_ledger(cpu=500, pods=1)
    assert refused(ledger, a_shape(a_claim(1000)), "n1", 0) is None
    assert refused(ledger, a_shape(cpu=501), "n1") == "Insufficient cpu"
    nic = a_shape(resources=(("example.com/nic", 1),))
    assert refused(ledger, nic, "n1") == "Insufficient example.com/nic"
    much = a_shape(a_claim(10, memory_bytes=41 * GIB))
    assert refused(ledger, much, "n1", 0) == "GPU GPU-n1-0 has too little memory left"
    assert refused(ledger, a_shape(whole(2)), "n1", 1, 1) == "GPU GPU-n1-1 is taken twice"
    held = charges(ledger, a_claim(600), Choice(0, (0,)))
    ledger.charge(PodUid("uid"), NodeName("n1"), (), held)
    assert refused(ledger, a_shape(cpu=0), "n1") == "Too many pods"
    ledger.put_node(a_node("n1", pods=9))
    assert refused(ledger, a_shape(a_claim(401)), "n1", 0) == (
        "GPU GPU-n1-0 has too little share left"
    )
    assert refused(ledger, a_shape(whole(1)), "n1", 0) == "GPU GPU-n1-0 has too little share left"
    ledger.put_cards(NodeName("n1"), (a_gpu("GPU-n1-1", healthy=False),))
    assert refused(ledger, a_shape(a_claim(0)), "n1", 1) == "GPU GPU-n1-1 is not healthy"
    assert refused(ledger, a_shape(a_claim(0)), "n1", 0) == "GPU GPU-n1-0 is not there"
    ledger.charge(PodUid("stays"), NodeName("n1"), (), None)
    ledger.drop_node(NodeName("n1"))
    assert refused(ledger, a_shape(), "n1") == "the node is not there"


def test_whole_cards_ports_and_tenants_are_refused_too() -> None:
    ledger = a_ledger()
    ledger.put_cards(NodeName("n1"), (a_gpu("a", max_tenants=1), a_gpu("b"), a_gpu("c")))
    numbers = count()
    for slot, claim in ((0, a_claim(10)), (1, whole(1))):
        uid = PodUid(f"uid-{next(numbers)}")
        ledger.charge(uid, NodeName("n1"), (), charges(ledger, claim, Choice(0, (slot,))))
    assert refused(ledger, a_shape(a_claim(0)), "n1", 0) == "GPU a has as many pods as it may have"
    assert refused(ledger, a_shape(a_claim(0)), "n1", 1) == "GPU b is held by a pod alone"
    ledger.charge(PodUid("native"), NodeName("n1"), (("nvidia.com/gpu", 1),), None)
    assert refused(ledger, a_shape(a_claim(0)), "n1", 2) == (
        "GPU c is kept for pods whose GPUs the kubelet picks"
    )


def test_profiles_say_what_they_do_not_look_at() -> None:
    assert unguarded(PROFILES["default"]) == set()
    assert unguarded(BARE) == {*Ground}
    assert [*warnings([PROFILES["default"]])] == []
    off = {"disabled": [{"name": "*"}]}
    machine = a_machine({"profiles": [{"plugins": {"cardFilter": off}}]})
    said = [*warnings([*machine.profiles.values()])]
    assert said[0] == (
        "profiles[0] (kubeshare-scheduler): no cardFilter looks at what is free on GPUs (GpuFit "
        "does): the ledger refuses what does not fit, with less to say about why"
    )
    assert len(said) == 7
    everything = {"profiles": [{"plugins": {"filter": off}}]}
    bare = [*warnings([*a_machine(everything).profiles.values()])]
    for one in PROFILES["default"].filters:
        assert any(one.name in sentence for sentence in bare)
