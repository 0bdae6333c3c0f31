import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge, summed
from kubeshare_py.domain.card_reading import Isolation, IsolationBackend
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindRefused, Refusal
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.request import ContainerRef
from kubeshare_py.domain.values import replace
from kubeshare_py.manifests.binding import (
    Doubt,
    annotation_problem,
    binding_annotations,
    read_outcome,
    read_refusal,
)

FORBIDDEN = 'pods "a" is forbidden:'
NO_RIGHT = 'User "system:serviceaccount:x:y" cannot create resource "pods/binding" in API group ""'
BY_POLICY = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request:"
BY_WEBHOOK = 'admission webhook "w" denied the request:'
CONFLICT = 'Operation cannot be fulfilled on pods/binding "a": pod a '


@pytest.mark.parametrize(
    ("status", "reason", "kind", "message", "meaning"),
    [
        (409, "Conflict", "pods", "Precondition failed: UID in precondition: a", Refusal.GONE),
        (409, "Conflict", "pods", "ResourceVersion in precondition", Doubt.AGAIN),
        (409, "Conflict", "pods/binding", f'{CONFLICT}is already assigned to node "n"', Doubt.LOOK),
        (409, "Conflict", "pods/binding", f"{CONFLICT}is being deleted, cannot", Doubt.LEAVES),
        (
            409,
            "Conflict",
            "pods/binding",
            f"{CONFLICT}has non-empty .spec.schedulingGates",
            Refusal.GATED,
        ),
        (404, "NotFound", "pods", 'pods "a" not found', Refusal.GONE),
        (404, "NotFound", "namespaces", 'namespaces "x" not found', Refusal.GONE),
        (400, "BadRequest", "", "the name of the object does not match", Refusal.INVALID),
        (400, "BadRequest", "", f"{BY_WEBHOOK} no", Refusal.DENIED),
        (400, "Bad Request", "", f"{BY_WEBHOOK} no", Refusal.DENIED),
        (409, "Conflict", "", f"{BY_WEBHOOK} is already assigned to node", Refusal.DENIED),
        (403, "Forbidden", "pods", f"{FORBIDDEN} {NO_RIGHT}", Refusal.FORBIDDEN),
        (403, "Forbidden", "pods", f"{FORBIDDEN} {BY_POLICY} {NO_RIGHT}", Refusal.DENIED),
        (403, "Forbidden", "pods", f"{FORBIDDEN} quota exceeded", Refusal.DENIED),
        (413, "RequestEntityTooLarge", "", BY_POLICY, Refusal.DENIED),
        (422, "Invalid", "pods", f"{BY_POLICY} no", Refusal.DENIED),
        (401, "Unauthorized", "", "Unauthorized", Refusal.FORBIDDEN),
        (401, "Unauthorized", "pods", f"{BY_POLICY} no", Refusal.DENIED),
        (404, "NotFound", "", "the server could not find the requested resource", Refusal.DENIED),
        (429, "TooManyRequests", "", "", Doubt.AGAIN),
        (500, "", "", "Unsupported value", Doubt.AGAIN),
        (504, "Timeout", "", "", Doubt.AGAIN),
    ],
)
def test_what_the_api_server_itself_refused_was_not_stored(
    status: int, reason: str, kind: str, message: str, meaning: object
) -> None:
    assert read_refusal(status, reason, kind, message, is_status=True) is meaning


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 502, 503])
def test_a_proxy_on_the_way_says_nothing_of_what_was_stored(status: int) -> None:
    for text in ("<html>", FORBIDDEN, BY_WEBHOOK):
        assert read_refusal(status, "", "", text, is_status=False) is Doubt.AGAIN


@pytest.mark.parametrize(
    "key", ["a", "sharedgpu/container-0.gpu_uuid", "Example.COM/A_b.c", "x/" + "n" * 63]
)
def test_qualified_names_are_good_keys(key: str) -> None:
    assert annotation_problem({key: "v"}) == ""


@pytest.mark.parametrize(
    "key", ["", "bad key!!", "/a", "a/", "a/b/c", "-a", "x/" + "n" * 64, "p" * 254 + "/a", "a..b/c"]
)
def test_other_keys_are_named(key: str) -> None:
    assert repr(key) in annotation_problem({key: "v"})


def test_the_size_of_all_keys_and_values_is_limited_in_bytes() -> None:
    assert annotation_problem({"k": "é" * 131_071}) == ""
    assert annotation_problem({"k": "é" * 131_072}) == (
        "annotations have 262145 bytes, 262144 are allowed"
    )


def a_bind(claims: int, cards: int) -> Bind:
    """Of so many containers with so many cards each, all with long names."""
    card = CardCharge(GpuUuid(""), 1000, 2**37, "NVIDIA-A100-SXM4-80GB", "n/1/2/3", True)
    parts = [
        ClaimCharge(
            container=ContainerRef(False, index),
            cards=tuple(
                replace(card, uuid=GpuUuid(f"MIG-{index:04}{number:04}{'0' * 28}"))
                for number in range(cards)
            ),
        )
        for index in range(claims)
    ]
    held = Allocation(
        token=DecisionToken("t"),
        cards=summed(card for part in parts for card in part.cards),
        claims=tuple(parts),
        isolation=Isolation(IsolationBackend.MPS, 500),
    )
    stale = ("sharedgpu/container-0.mps_memory", "sharedgpu/init-0.gpu_uuid")
    return Bind(PodUid("u"), PodKey("ns", "p"), NodeName("n"), held, stale)


def test_all_that_one_node_has_fits_into_the_annotations_of_a_pod() -> None:
    assert annotation_problem(binding_annotations(a_bind(8, 16), "me/1")) == ""
    assert annotation_problem(binding_annotations(a_bind(64, 2), "me/1")) == ""
    too_much = annotation_problem(binding_annotations(a_bind(64, 128), "me/1"))
    assert too_much.endswith("262144 are allowed")


def test_what_a_pod_already_carries_for_its_containers_is_overwritten() -> None:
    found = binding_annotations(a_bind(1, 1), "")
    assert found["sharedgpu/init-0.gpu_uuid"] == found["sharedgpu/container-0.mps_memory"] == ""
    assert found["sharedgpu/container-0.gpu_uuid"] == found["sharedgpu/gpu_uuid"]


def test_the_outcome_is_read_from_a_pod_that_is_nested_deeper_than_a_decoder_goes() -> None:
    allocation = Allocation(token=DecisionToken("t"), cards=())
    bind = Bind(PodUid("u"), PodKey("ns", "p"), NodeName("n1"), allocation)
    fields = b'{"f:a":' * 3000 + b"{}" + b"}" * 3000
    body = b'{"metadata":{"uid":"u","managedFields":[%s]},"spec":{"nodeName":"n2"}}' % fields
    outcome = read_outcome(body, bind, "is already assigned")
    assert outcome == BindRefused(Refusal.ASSIGNED, "ns/p is on node n2")
