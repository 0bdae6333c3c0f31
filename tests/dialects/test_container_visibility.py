import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dialects.card_visibility import CardVisibility, ContainerRule
from kubeshare_py.dialects.dialect import ContainerAmounts, PodAsk
from kubeshare_py.dialects.dialects import DialectTable, container_variables, container_visibility
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.request import ContainerRef, GpuRequest, InvalidRequest
from kubeshare_py.domain.values import replace
from tests.dialects.halves import BOTH, HALF, HALVES, Halves, a_container, an_ask

VOID, SHARE, WHOLE = CardVisibility.VOID, CardVisibility.SHARE, CardVisibility.WHOLE
ASKS = {"sharedgpu/gpu_request": "0.5"}


class WithoutRules(Halves):
    """Its claims decide."""

    def __init__(self, alone: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.container_rules = ()
        self._alone = alone

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        asked = super().read(pod)
        if not isinstance(asked, GpuRequest):
            return asked
        claims = [
            replace(one, claim=replace(one.claim, exclusive=place in self._alone))
            for place, one in enumerate(asked.claims)
        ]
        return replace(asked, claims=tuple(claims))


class Told(Halves):
    """With variables, in no order."""

    def __init__(self) -> None:
        super().__init__()
        own, card = ("OWN", "example.com/{container}"), ("CARD", "example.com/card")
        self.container_rules = (ContainerRule(HALF, SHARE, variables=(own, card)),)


def test_labels_of_a_pod_tell_all_of_its_containers_the_same() -> None:
    one = an_ask(a_container(), labels=ASKS)
    assert container_visibility(DialectTable(), one) == {}
    assert container_visibility(BOTH, one) == {}


def test_containers_that_ask_see_cards_and_others_none() -> None:
    asked = an_ask(a_container(0, init=True, half=1), a_container(0), a_container(1, half=1))
    assert container_visibility(BOTH, asked) == {
        ContainerRef(True, 0): SHARE,
        ContainerRef(False, 1): SHARE,
    }
    assert container_visibility(BOTH, an_ask(a_container(), a_container(1, half=0))) == {}


def test_a_container_that_asks_decides_even_if_the_request_cannot_be_read() -> None:
    # Its resources stay as they are, while labels may be mended later.
    asked = an_ask(a_container(0, half=7), a_container(1), labels=ASKS)
    assert isinstance(BOTH.read(asked), InvalidRequest)
    assert container_visibility(BOTH, asked) == {ContainerRef(False, 0): SHARE}


def test_the_first_rule_that_a_container_meets_decides() -> None:
    dialect = Halves()
    dialect.container_rules = (
        ContainerRule("example.com/other", SHARE),
        ContainerRule(HALF, WHOLE),
        ContainerRule(HALF, SHARE),
    )
    asked = an_ask(a_container(half=1))
    assert container_visibility(DialectTable((SHAREDGPU, dialect)), asked) == {
        ContainerRef(False, 0): WHOLE
    }


@pytest.mark.parametrize("alone", [(0, 1), (0, 2)])
def test_without_a_rule_the_claims_decide(alone: tuple[int, ...]) -> None:
    asked = an_ask(a_container(0, half=1), a_container(1), a_container(2, half=1, gpu=1))
    table = DialectTable((WithoutRules(alone),))
    assert container_visibility(table, asked) == {
        ContainerRef(False, 0): WHOLE,
        ContainerRef(False, 2): SHARE,
    }
    assert container_visibility(DialectTable((WithoutRules(),)), an_ask(a_container(half=9))) == {}


@pytest.mark.parametrize("counted", [True, False])
def test_a_rule_may_concern_no_init_container(counted: bool) -> None:
    dialect = Told()
    [rule] = dialect.container_rules
    dialect.container_rules = (replace(rule, init_containers=counted),)
    table = DialectTable((dialect,))
    asked = an_ask(a_container(0, init=True, half=1), a_container(0, half=1))
    first, main = ContainerRef(True, 0), ContainerRef(False, 0)
    seen = container_visibility(table, asked)
    assert seen == ({first: SHARE, main: SHARE} if counted else {main: SHARE})
    told = container_variables(table, asked)
    assert (bool(told[first]), bool(told[main])) == (counted, True)


def test_a_rule_shows_some_card() -> None:
    with pytest.raises(ValueError, match="see no card"):
        ContainerRule(HALF, VOID)


containers = st.lists(
    st.builds(lambda half: a_container(half=half) if half else a_container(), st.integers(0, 1)),
    max_size=4,
)


@given(containers)
def test_the_rules_of_a_dialect_agree_with_its_claims(found: list[ContainerAmounts]) -> None:
    numbered = [
        ContainerAmounts(one.name, ContainerRef(False, at), False, one.amounts)
        for at, one in enumerate(found)
    ]
    asked = an_ask(*numbered)
    by_claims = container_visibility(DialectTable((WithoutRules(),)), asked)
    assert container_visibility(DialectTable((HALVES,)), asked) == by_claims


@pytest.mark.parametrize("amount", [1, 99, 100, 250])
def test_from_an_amount_on_a_container_sees_whole_cards(amount: int) -> None:
    dialect = Halves()
    dialect.container_rules = (ContainerRule(HALF, SHARE, whole_from=100),)
    asked = an_ask(a_container(half=amount), a_container(1, half=0))
    assert container_visibility(DialectTable((SHAREDGPU, dialect)), asked) == {
        ContainerRef(False, 0): WHOLE if amount >= 100 else SHARE
    }


def test_no_amount_is_negative() -> None:
    with pytest.raises(ValueError, match="negative"):
        ContainerRule(HALF, SHARE, whole_from=-1)
    assert ContainerRule(HALF, WHOLE).seen(0) is VOID


def test_containers_get_the_variables_of_the_rules_that_they_meet() -> None:
    """Each container knows its own amount."""
    table = DialectTable((Told(),))
    asked = an_ask(a_container(0, init=True, half=1), a_container(0), a_container(1, half=1))
    assert container_variables(table, asked) == {
        ContainerRef(True, 0): (("CARD", "example.com/card"), ("OWN", "example.com/init-0")),
        ContainerRef(False, 0): (),
        ContainerRef(False, 1): (("CARD", "example.com/card"), ("OWN", "example.com/container-1")),
    }
