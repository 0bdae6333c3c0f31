"""Which dialect a pod uses, and what a dialect may not do."""

from collections.abc import Mapping

import pytest

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.dialects.dialect import Dialect, OwnedKeys, PodAsk, ResultKeys
from kubeshare_py.dialects.dialects import DialectConflict, DialectTable
from kubeshare_py.dialects.pod_request import first_problem, read
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.dialect_switch import ALL_ON
from kubeshare_py.domain.request import (
    ContainerClaim,
    ContainerRef,
    GpuClaim,
    GpuRequest,
    InvalidRequest,
)
from tests.dialects.halves import BOTH, HALF, HALVES, Halves, a_container, an_ask

SHARE = {"sharedgpu/gpu_limit": "1", "sharedgpu/gpu_request": "0.5"}
ONE_HALF = GpuRequest(
    claims=(
        ContainerClaim(
            claim=GpuClaim(milli=500), container=ContainerRef(False, 0), limit_milli=500
        ),
    ),
    dialect="halves",
)


class Labelled(Dialect):
    """A dialect of labels `odd/*`, with the behaviour that a test is about."""

    name = "odd"
    owns = OwnedKeys(prefixes=("odd/",))

    def __init__(self, answer: object = None, error: Exception | None = None) -> None:
        self.answer, self.error = answer, error
        self.seen: list[PodAsk] = []

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        self.seen.append(pod)
        if self.error is not None:
            raise self.error
        answer: GpuRequest = self.answer  # type: ignore[assignment]
        return answer


def odd_problem(dialect: Labelled, labels: Mapping[str, str] | None = None) -> str:
    table = DialectTable((SHAREDGPU, dialect))
    return str(read(labels or {"odd/gpu": "1"}, {}, "", table).problem or "")


def test_a_pod_uses_the_dialect_whose_keys_it_has() -> None:
    assert BOTH.read(an_ask(a_container(half=1))) == ONE_HALF
    asked = BOTH.read(an_ask(a_container(), labels=SHARE))
    assert isinstance(asked, GpuRequest)
    assert asked.dialect == "sharedgpu"
    assert BOTH.read(an_ask(a_container(), labels={"app": "web"})) is None


def test_the_same_labels_mean_the_same_beside_another_dialect() -> None:
    gang = {"group_name": "g", "group_headcount": "2", "group_threshold": "1", "priority": "3"}
    labels = {**SHARE, **{f"sharedgpu/{name}": text for name, text in gang.items()}}
    notes = {"sharedgpu/gpu_models": "A100 > *"}
    assert read(labels, notes, "", BOTH) == read(labels, notes)


def test_a_refusal_names_field_value_and_rule() -> None:
    problem = read({}, {}, "", BOTH, (a_container(half=2),)).problem
    assert str(problem) == 'resources[example.com/half]="2": must be 1, half a card'


def test_a_pod_in_two_dialects_is_refused_and_both_fields_are_named() -> None:
    found = read(SHARE, {}, "", BOTH, (a_container(half=1),))
    assert found.request is None
    assert str(found.problem) == (
        "sharedgpu/gpu_limit asks in dialect sharedgpu, and resources[example.com/half] in dialect"
        " halves: a pod can only use one dialect"
    )
    assert first_problem(SHARE, {}, BOTH, (a_container(half=1),)) == found.problem


def test_none_of_an_owned_resource_is_no_key() -> None:
    assert read(SHARE, {}, "", BOTH, (a_container(half=0),)).problem is None


def test_priority_and_gang_are_read_in_every_dialect() -> None:
    gang = {"group_name": "g", "group_headcount": "2", "group_threshold": "1", "priority": "3"}
    labels = {f"sharedgpu/{name}": text for name, text in gang.items()}
    found = read(labels, {}, "", BOTH, (a_container(half=1),))
    assert found.request == ONE_HALF
    assert found.priority == 3
    assert found.group is not None
    bad = read({"sharedgpu/priority": "x"}, {}, "", BOTH, (a_container(half=1),))
    assert str(bad.problem).startswith('sharedgpu/priority="x": ')


def test_labels_of_sharedgpu_are_refused_where_the_profile_does_not_enable_it() -> None:
    table = DialectTable((HALVES,))
    assert str(read(SHARE, {}, "", table).problem) == (
        "sharedgpu/gpu_limit asks in dialect sharedgpu, which this pod's profile does not enable: "
        f"add it to the profile, or {ALL_ON}"
    )
    assert read({}, {}, "", table, (a_container(half=1),)).request == ONE_HALF


def test_a_dialect_sees_what_it_owns_and_nothing_else() -> None:
    dialect = Labelled()
    table = DialectTable((SHAREDGPU, dialect, HALVES))
    labels = {"odd/gpu": "1", "app": "web", "sharedgpu/priority": "7"}
    table.read(an_ask(a_container(), labels=labels, annotations={"odd/x": "y", "note": "z"}))
    [seen] = dialect.seen
    assert (seen.labels, seen.annotations) == ({"odd/gpu": "1"}, {"odd/x": "y"})


def test_equal_requests_are_read_once() -> None:
    dialect = Labelled()
    table = DialectTable((dialect,))
    for app in ("a", "b", "c"):
        table.read(an_ask(labels={"odd/gpu": "1", "app": app}))
    assert len(dialect.seen) == 1


def test_a_dialect_that_raises_costs_its_pod_alone() -> None:
    dialect = Labelled(error=KeyError("uuid"))
    assert odd_problem(dialect) == "dialect odd failed: KeyError: 'uuid'"
    assert odd_problem(dialect, SHARE) == ""


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (7, "read answered 7, which is no GpuRequest"),
        (
            GpuRequest.of_pod(GpuClaim(milli=1), dialect="x", limit_milli=0),
            "read answered a request of the dialect 'x'",
        ),
        (
            GpuRequest(
                claims=(ContainerClaim(claim=GpuClaim(milli=1), container=ContainerRef(True, 3)),),
                dialect="odd",
            ),
            "the pod has no init-3",
        ),
    ],
)
def test_nonsense_costs_its_pod_alone(answer: object, why: str) -> None:
    assert odd_problem(Labelled(answer)) == f"dialect odd failed: {why}"


def test_which_cards_containers_may_see_follows_from_the_request() -> None:
    assert BOTH.visibility(an_ask(a_container(half=1))) is CardVisibility.SHARE
    assert BOTH.visibility(an_ask(a_container())) is CardVisibility.VOID
    whole = GpuRequest.of_pod(GpuClaim(milli=1000, exclusive=True), dialect="odd", limit_milli=1000)
    asks = an_ask(labels={"odd/gpu": "1"})
    assert DialectTable((Labelled(whole),)).visibility(asks) is CardVisibility.WHOLE
    failing = DialectTable((Labelled(error=ValueError()),))
    assert failing.visibility(asks) is CardVisibility.SHARE


def test_users_must_not_write_the_results_of_any_enabled_dialect() -> None:
    notes = {"example.com/cards": "x", "example.com/ok": "y", "sharedgpu/gpu_uuid": "z", "n": ""}
    notes["example.com/of-main"] = "0"
    assert read({}, notes, "", BOTH).stale_results == (
        "example.com/cards",
        "example.com/of-main",
        "example.com/ok",
        "sharedgpu/gpu_uuid",
    )
    assert read({}, notes).stale_results == ("sharedgpu/gpu_uuid",)


def test_a_copied_result_asks_for_nothing() -> None:
    for key in ("example.com/cards", "example.com/of-main"):
        assert read(SHARE, {key: "x"}, "", BOTH).problem is None
    mine = read(SHARE, {"example.com/mine": "x"}, "", BOTH).problem
    assert "example.com/mine in dialect halves" in str(mine)


class Same(Halves):
    name = "same"


class Exact(Labelled):
    name = "exact"
    owns = OwnedKeys(labels=frozenset({"odd/gpu"}))


class Greedy(Labelled):
    result_keys = ResultKeys(scheduler=frozenset({"sharedgpu/gpu_uuid"}))


class Wide(Labelled):
    result_keys = ResultKeys(prefixes=("sharedgpu/container-",))


class Below(Labelled):
    """Its results are below a prefix by which the dialect `odd` asks."""

    name = "below"
    owns = OwnedKeys()
    result_keys = ResultKeys(prefixes=("odd/of-",))


class Both(Labelled):
    """A key by which pods ask begins as its results do."""

    name = "both"
    owns = OwnedKeys(annotations=frozenset({"odd/of-all"}))
    result_keys = ResultKeys(prefixes=("odd/of-",))


@pytest.mark.parametrize(
    ("dialects", "why"),
    [
        ((HALVES, HALVES), "halves is there twice"),
        ((HALVES, Same()), "halves and same both own example.com/"),
        ((Labelled(), Exact()), "odd and exact both own odd/gpu"),
        ((Greedy(),), "odd: sharedgpu/gpu_uuid is a result of every dialect"),
        ((Wide(),), "odd: sharedgpu/container- is a result of every dialect"),
        ((Labelled(), Below()), "odd and below both own odd/of-"),
        ((Below(), Labelled()), "below and odd both own odd/of-"),
        ((Both(),), "both: odd/of-all asks and is a result"),
    ],
)
def test_dialects_that_own_the_same_cannot_be_used_together(
    dialects: tuple[Dialect, ...], why: str
) -> None:
    with pytest.raises(DialectConflict, match=why):
        DialectTable(dialects)


class Kin(Exact):
    """Writes what its kin writes too; the kin says so as well, or not."""

    def __init__(self, name: str, *, common: bool = True) -> None:
        self.name = name
        key = frozenset({"system/node"})
        self.owns = OwnedKeys()
        self.result_keys = ResultKeys(scheduler=key, common=key if common else frozenset())


def test_dialects_of_one_system_write_what_both_call_common() -> None:
    table = DialectTable((Kin("one"), Kin("other")))
    assert table.is_result("system/node")
    with pytest.raises(DialectConflict, match="one and other both own system/node"):
        DialectTable((Kin("one"), Kin("other", common=False)))
    with pytest.raises(ValueError, match="system/node is common, and no annotation"):
        ResultKeys(common=frozenset({"system/node"}))


def test_the_table_names_the_resources_that_its_dialects_own() -> None:
    assert BOTH.resources == {HALF, "nvidia.com/gpu"}
    assert not DialectTable().resources


@pytest.mark.parametrize("prefix", ["", "/", "/x", "of-"])
def test_a_prefix_of_results_is_below_a_domain(prefix: str) -> None:
    with pytest.raises(ValueError, match="needs a slash and text before it"):
        ResultKeys(prefixes=(prefix,))


def test_a_label_is_an_annotation_too() -> None:
    with pytest.raises(ValueError, match="label odd/x is no annotation"):
        ResultKeys(labels=frozenset({"odd/x"}))
