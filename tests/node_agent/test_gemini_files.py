"""What Gemini's files say of a node's pods."""

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_reading import Isolation, IsolationBackend
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, PodKey, PodUid
from kubeshare_py.node_agent.gemini import EMPTY, LONGEST_NAME, GeminiFiles, gemini_files
from kubeshare_py.node_agent.tenants import NodeTenant

X, Y = GpuUuid("GPU-x"), GpuUuid("GPU-y")
MEMORY_OF = {X: 8_510_701_568, Y: 2**34}


def tenant(
    name: str,
    milli: int = 500,
    limit: int = 1000,
    memory: int = 2**30,
    port: int | None = 50051,
    cards: tuple[GpuUuid, ...] = (X,),
    backend: IsolationBackend = IsolationBackend.GEMINI,
) -> NodeTenant:
    namespace, _, name = name.rpartition("/")
    allocation = Allocation(
        token=DecisionToken(name),
        cards=tuple(CardCharge(uuid, milli, memory) for uuid in cards),
        port=port,
        isolation=Isolation(backend, limit),
    )
    key = PodKey(namespace or "default", name)
    return NodeTenant(uid=PodUid(f"uid-{name}"), key=key, allocation=allocation)


def files(*tenants: NodeTenant) -> GeminiFiles:
    return gemini_files(tenants, MEMORY_OF, MEMORY_OF)


def test_53_two_pods_of_one_card_with_the_request_before_the_limit() -> None:
    """Gemini reads the request first; KubeShare writes the limit first."""
    a = tenant("a", 500, 1000, 4_255_350_784, 50051)
    b = tenant("b", 300, 600, 2_553_210_470, 50052)
    found = files(b, a)
    assert found.config[X] == "2\ndefault/a 0.5 1.0 4255350784\ndefault/b 0.3 0.6 2553210470\n"
    assert found.ports[X] == "2\ndefault/a 50051\ndefault/b 50052\n"
    assert found.served == {a.uid, b.uid}
    assert found.unserved == {}


def test_55_cards_without_pods_have_empty_files_of_both_kinds() -> None:
    """They say `0`, also while another card of the node has pods."""
    assert files().config == files().ports == {X: "0\n", Y: "0\n"}
    found = files(tenant("a"))
    assert (found.config[Y], found.ports[Y]) == (EMPTY, EMPTY)


def test_only_pods_of_gemini_have_lines() -> None:
    others = [
        tenant(backend, backend=backend)
        for backend in IsolationBackend
        if backend is not IsolationBackend.GEMINI
    ]
    assert files(*others) == files()
    bare = NodeTenant(uid=PodUid("u"), key=PodKey("default", "bare"))
    assert files(bare) == files()


def test_a_pod_with_a_whole_card_has_no_line() -> None:
    whole = CardCharge(X, 1000, 2**30, exclusive=True)
    allocation = Allocation(
        token=DecisionToken("t"), cards=(whole,), isolation=Isolation(IsolationBackend.GEMINI)
    )
    one = NodeTenant(uid=PodUid("u"), key=PodKey("d", "a"), allocation=allocation)
    assert files(one) == files()


def test_a_pod_without_memory_may_have_all_of_its_card_and_never_0() -> None:
    """Gemini refuses each allocation of a pod with 0 bytes."""
    assert files(tenant("a", 0, 500, 0)).config[X] == "1\ndefault/a 0.0 0.5 8510701568\n"
    found = gemini_files([tenant("a", 0, 500, 0)], {}, ())
    assert found.config == {}
    assert found.unserved == {
        PodKey("default", "a"): "it sets no memory aside, and the memory of GPU-x is not known"
    }


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"port": None}, "it has no pod manager's port"),
        ({"cards": (X, Y)}, "Gemini limits a pod on one card, and it holds 2"),
        ({"cards": (GpuUuid("../../etc/passwd"),)}, "Gemini knows no card '../../etc/passwd'"),
        ({"cards": (GpuUuid("MIG-GPU-1/2/0"),)}, "Gemini knows no card 'MIG-GPU-1/2/0'"),
        ({"port": 50052}, "port 50052 is that of default/a"),
    ],
)
def test_a_pod_that_gemini_cannot_serve_has_no_line_and_a_reason(
    odd: dict[str, object], why: str
) -> None:
    found = files(tenant("a", port=50052), tenant("z", **odd))  # type: ignore[arg-type]
    assert found.config[X] == "1\ndefault/a 0.5 1.0 1073741824\n"
    assert found.unserved == {PodKey("default", "z"): why}


def test_names_that_would_overflow_geminis_messages_are_refused() -> None:
    """33 bytes and the name have to fit into 80."""
    fits, odd = f"ns/{'a' * 44}", f"ns/{'a' * 45}"
    assert len(fits) == LONGEST_NAME
    found = files(tenant(fits), tenant(odd, port=50052))
    assert found.config[X] == f"1\n{fits} 0.5 1.0 1073741824\n"
    [why] = found.unserved.values()
    assert why == "Gemini takes at most 47 characters for namespace/name, this pod has 48"


def test_a_pod_without_a_limit_is_limited_by_the_card_alone() -> None:
    assert files(tenant("a", 500, 0)).config[X].split()[2:4] == ["0.5", "1.0"]
    assert files(tenant("a", 500, 2000)).config[X].split()[2:4] == ["0.5", "1.0"]
    assert files(tenant("a", 500, 300)).config[X].split()[2:4] == ["0.5", "0.5"]
