"""Any nodes with any cards, charged with anything, and any claims."""

from hypothesis import strategies as st

from kubeshare_py.domain.request import GpuClaim
from kubeshare_py.testing import SmallCluster
from tests.making import a_gpu

#: Memory in bytes, as a part of the card, or as goes with the share.
MEMORY: st.SearchStrategy[dict[str, int]] = st.one_of(
    st.just({}),
    st.builds(dict, memory_bytes=st.sampled_from([0, 1, 499, 500, 1000, 1001])),
    st.builds(dict, memory_milli=st.sampled_from([0, 1, 333, 500, 1000])),
)
CLAIMS = st.builds(
    lambda memory, **fields: GpuClaim(**memory, **fields),
    MEMORY,
    count=st.integers(1, 3),
    milli=st.sampled_from([0, 1, 333, 500, 999, 1000]),
    exclusive=st.booleans(),
    card_bytes=st.sampled_from([None, None, None, (1, 1000), (1000, 1001)]),
)
SELDOM = st.sampled_from([False] * 5 + [True])
CARDS = st.tuples(
    st.sampled_from([True] * 5 + [False]),
    st.sampled_from([1, 500, 1000, 1001]),
    st.sampled_from([0, 0, 1, 2]),
    st.sampled_from([(1000, 1000)] * 3 + [(2500, 1500), (400, 2000)]),  # cores and memory
)
CHARGES = st.tuples(
    st.integers(0, 3),  # which card, the last one being unknown
    st.sampled_from([0, 1, 333, 500, 667, 1000]),
    st.sampled_from([0, 1, 333, 500, 1001]),
    SELDOM,
)
NODES = st.lists(
    st.tuples(st.lists(CARDS, max_size=3), st.lists(CHARGES, max_size=3)), min_size=1, max_size=3
)


Nodes = list[tuple[list[tuple[bool, int, int, tuple[int, int]]], list[tuple[int, int, int, bool]]]]


def random_cluster(nodes: Nodes, *plugins: object) -> SmallCluster:
    cluster = SmallCluster(*plugins)
    for number, (cards, charges) in enumerate(nodes):
        gpus = [
            a_gpu(
                f"n{number}-{slot}",
                index=slot,
                healthy=healthy,
                memory_bytes=memory,
                max_tenants=most,
                cores_scaling=cores,
                memory_scaling=scaling,
            )
            for slot, (healthy, memory, most, (cores, scaling)) in enumerate(cards)
        ]
        cluster.node(f"n{number}", *gpus)
        for slot, milli, memory, exclusive in charges:
            cluster.hold(
                f"n{number}", f"n{number}-{slot}", milli, memory=memory, exclusive=exclusive
            )
    return cluster
