"""Which existing volumes claims get, against the definition, one node after the other."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.storage_index import NodeLabels
from kubeshare_py.cluster.volume_places import NONE, StaticVolumes
from kubeshare_py.domain.storage import PersistentVolume, PersistentVolumeClaim
from tests.cluster.storage_world import ZONE, StorageWorld, a_claim, a_volume, on
from tests.making.calls import counted

NODES = 3
PLACES = (None, on("n1"), on("n2", "n3"), on("a", key=ZONE))
VOLUMES = st.lists(st.tuples(st.sampled_from((5, 7, 9)), st.sampled_from(PLACES)), max_size=7)
CLAIMS = st.lists(st.sampled_from((5, 6, 9)), min_size=1, max_size=5)


def chosen(world: StorageWorld, claims: list[PersistentVolumeClaim]) -> list[list[str]]:
    """The volume of each claim on each node; "" for none."""
    static = StaticVolumes(world.storage, NodeLabels(world.rows), {})
    numbers = static.choose(claims).tolist()
    return [["" if at == NONE else static.volumes[at].name for at in row] for row in numbers]


def by_definition(
    volumes: list[PersistentVolume], claims: list[PersistentVolumeClaim], node: str, zone: str
) -> list[str]:
    """Each claim gets the smallest volume there that is large enough and left."""
    left = sorted(volumes, key=lambda one: (one.capacity, one.name))
    found = []
    for claim in claims:
        fits = [
            one
            for one in left
            if one.capacity >= (claim.requested or 0)
            and (one.node_terms is None or {node, zone} & {*one.node_terms[0].labels[0].values})
        ]
        found.append(fits[0].name if fits else "")
        left = [one for one in left if not fits or one is not fits[0]]
    return found


@given(VOLUMES, CLAIMS)
def test_each_claim_gets_the_smallest_that_is_left(
    sizes: list[tuple[int, object]], requested: list[int]
) -> None:
    volumes = [
        a_volume(f"v{number}", size, node_terms=terms) for number, (size, terms) in enumerate(sizes)
    ]
    claims = [a_claim(f"c{number}", size) for number, size in enumerate(sorted(requested))]
    world = StorageWorld(*volumes, *claims, nodes=NODES)
    found = chosen(world, claims)
    for at, (node, zone) in enumerate((("n1", "a"), ("n2", "b"), ("n3", "a"))):
        assert [row[at] for row in found] == by_definition(volumes, claims, node, zone)


def calls_to_choose(count: int) -> int:
    """How many calls it takes to choose for so many claims among as many volumes."""
    claims = [a_claim(f"c{number}") for number in range(count)]
    volumes = [a_volume(f"v{number}") for number in range(count)]
    world = StorageWorld(*volumes, *claims)
    found, calls = counted(lambda: chosen(world, claims))
    assert sorted(row[0] for row in found) == sorted(one.name for one in volumes)
    return calls.total()


def test_ten_times_as_many_claims_cost_about_ten_times_as_much() -> None:
    assert calls_to_choose(100) < 30 * calls_to_choose(10)
