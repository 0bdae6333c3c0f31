"""Pods of NVIDIA's device plugin as a dialect: whole cards and MIG instances."""

import pytest

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.dialects.dialect import ContainerAmounts, NodeKeys, PodAsk
from kubeshare_py.dialects.dialects import DialectTable, container_visibility
from kubeshare_py.dialects.nvidia_dialect import GPU, Nvidia
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.node import AGENT_ANNOTATION
from kubeshare_py.domain.request import CardRelation, ContainerRef, GpuRequest, InvalidRequest

INSTANCE = "nvidia.com/mig-1g.5gb"
NVIDIA = Nvidia(mig=["1g.5gb", "1g.5gb.me"])
TABLE = DialectTable((SHAREDGPU, NVIDIA))


def a_container(index: int, amounts: dict[str, int], *, init: bool = False) -> ContainerAmounts:
    asked = tuple(sorted(amounts.items()))
    return ContainerAmounts(f"c{index}", ContainerRef(init, index), False, asked)


def an_ask(*containers: ContainerAmounts, **labels: str) -> PodAsk:
    written = {f"sharedgpu/{key}": text for key, text in labels.items()}
    return PodAsk(written, {}, containers)


def request(pod: PodAsk) -> GpuRequest:
    found = TABLE.read(pod)
    assert isinstance(found, GpuRequest)
    return found


def test_each_container_gets_idle_cards_of_its_own() -> None:
    found = request(an_ask(a_container(0, {GPU: 2}), a_container(1, {}), a_container(2, {GPU: 1})))
    assert (found.dialect, found.relation) == ("nvidia", CardRelation.DIFFERENT_CARDS)
    assert found.is_exclusive
    assert [(str(one.container), one.claim.count) for one in found.claims] == [
        ("container-0", 2),
        ("container-2", 1),
    ]


@pytest.mark.parametrize(
    ("resource", "model", "takes"),
    [
        (GPU, "NVIDIA-A100-SXM4-40GB", True),
        (GPU, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", False),
        (INSTANCE, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", True),
        (INSTANCE, "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb", False),
        (INSTANCE, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb+me", False),
        (INSTANCE, "NVIDIA-A100-SXM4-40GB", False),
        (f"{INSTANCE}.me", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb+me", True),
    ],
)
def test_cards_are_whole_ones_and_instances_of_their_profile(
    resource: str, model: str, takes: bool
) -> None:
    [one] = request(an_ask(a_container(0, {resource: 1}))).claims
    assert one.claim.takes(model) is takes


def test_a_pod_that_asks_in_another_dialect_uses_that_and_the_name_is_native() -> None:
    pod = an_ask(a_container(0, {GPU: 1}), gpu_limit="0.5", gpu_request="0.5")
    found = request(pod)
    assert (found.dialect, found.claims[0].claim.milli) == ("sharedgpu", 500)
    assert TABLE.marks(found, pod.containers) == ()
    assert container_visibility(TABLE, pod) == {}


def test_containers_that_ask_see_whole_cards_and_others_none() -> None:
    pod = an_ask(a_container(0, {GPU: 1}), a_container(1, {}))
    assert container_visibility(TABLE, pod) == {ContainerRef(False, 0): CardVisibility.WHOLE}
    assert TABLE.marks(request(pod), pod.containers) == ("nvidia.com/gpu of nvidia",)


@pytest.mark.parametrize(
    ("text", "owned"),
    [
        ('{"v":1,"plugins":["nvidia.com/gpu"]}', True),
        ('{"v":1,"plugins":["aliyun.com/gpu-mem"]}', False),
        ('{"v":2,"plugins":["nvidia.com/gpu"]}', False),
        ("odd", False),
    ],
)
def test_the_name_is_its_own_where_the_agent_serves_it(text: str, owned: bool) -> None:
    assert NVIDIA.owns_on(GPU, NodeKeys("n", {}, {AGENT_ANNOTATION: text})) is owned


def test_a_node_without_an_agent_gives_cards_natively() -> None:
    assert not NVIDIA.owns_on(GPU, NodeKeys("n", {}, {}))


def test_absurd_amounts_and_too_many_containers_are_refused() -> None:
    many = TABLE.read(an_ask(a_container(0, {GPU: 10**9})))
    assert isinstance(many, InvalidRequest)
    assert many.field == f"resources[{GPU}]"
    crowd = TABLE.read(an_ask(*(a_container(number, {GPU: 1}) for number in range(33))))
    assert isinstance(crowd, InvalidRequest)
    assert "33 is not within 1…32" in crowd.rule


def test_profiles_of_new_cards_are_an_argument() -> None:
    assert "nvidia.com/mig-9g.999gb" in Nvidia(mig=["9g.999gb"]).owns.contested
    with pytest.raises(ValueError, match="mig: 'a b:c' is no profile"):
        Nvidia(mig=["a b:c"])
