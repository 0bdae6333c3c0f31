"""Lists, orders and denials of models, as annotations and as labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dialects.sharedgpu import LONGEST_MODELS, MAX_NAMES
from kubeshare_py.domain.gpu import PreferredModels
from kubeshare_py.domain.request import GpuClaim, InvalidRequest
from tests.dialects.parsed import read

SHARE = {"sharedgpu/gpu_limit": "1", "sharedgpu/gpu_request": "0.5"}
TWO = {"sharedgpu/gpu_limit": "2", "sharedgpu/gpu_request": "2"}
GROUP = {"group_name": "g", "group_headcount": "2", "group_threshold": "1"}
MODELS, DENIED = "sharedgpu/gpu_models", "sharedgpu/gpu_models_denied"


def keys(values: dict[str, str]) -> dict[str, str]:
    return {f"sharedgpu/{name}": value for name, value in values.items()}


def claim_of(labels: dict[str, str] = SHARE, **annotations: str) -> GpuClaim:
    found = read(labels, keys(annotations))
    assert found.problem is None
    assert found.request is not None
    return found.request.claims[0].claim


def problem_of(labels: dict[str, str] = SHARE, **annotations: str) -> InvalidRequest:
    found = read(labels, keys(annotations))
    assert found.request is None
    assert found.problem is not None
    return found.problem


@pytest.mark.parametrize(
    ("text", "tiers"),
    [
        ("A100", (("A100",),)),
        ("A100, H100", (("A100", "H100"),)),
        ("H100 > A100 > L40S", (("H100",), ("A100",), ("L40S",))),
        ("H100,H200>A100>*", (("H100", "H200"), ("A100",), ("*",))),
        (" GTX 1080 Ti , Tesla-T4 ", (("GTX-1080-Ti", "Tesla-T4"),)),
        ("*", (("*",),)),
        ("*A*1*0**0", (("*A*1*0*0",),)),
    ],
)
def test_commas_are_between_equals_and_arrows_before_worse_ones(
    text: str, tiers: tuple[tuple[str, ...], ...]
) -> None:
    assert claim_of(gpu_models=text).preferred == PreferredModels(tiers=tiers)


@pytest.mark.parametrize(
    "model",
    [
        "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition-MIG-2g.48gb",
        *("NVIDIA-TITAN-X-(Pascal)", "Quadro-RTX-6000/8000", "x" * 253),
    ],
)
def test_a_model_may_be_named_as_the_inventory_spells_it_whatever_labels_allow(model: str) -> None:
    preferred = claim_of(gpu_models=model, gpu_request_of=model).preferred
    assert preferred is not None
    assert preferred.tier(model) == preferred.tier(model.replace("-", " ")) == 0


def test_models_may_be_denied_with_or_without_an_order() -> None:
    assert claim_of(gpu_models_denied="T4, MIG").preferred == PreferredModels(denied=("T4", "MIG"))
    both = claim_of(gpu_models="A100 > *", gpu_models_denied="MIG")
    assert both.preferred == PreferredModels(tiers=(("A100",), ("*",)), denied=("MIG",))


def test_the_exact_label_stays_beside_it() -> None:
    claim = claim_of({**SHARE, "sharedgpu/gpu_model": "Tesla-T4"}, gpu_models="T4")
    assert (claim.models, claim.preferred) == (("Tesla-T4",), PreferredModels(tiers=(("T4",),)))


def test_a_single_name_may_be_a_label() -> None:
    assert claim_of({**SHARE, MODELS: "A100"}).preferred == PreferredModels(tiers=(("A100",),))
    assert claim_of({**SHARE, MODELS: "A100"}, gpu_models="A100").preferred is not None


def test_a_label_and_an_annotation_that_differ_are_refused() -> None:
    problem = problem_of({**SHARE, MODELS: "A100"}, gpu_models="A100, H100")
    assert str(problem) == (
        f'{MODELS}="A100, H100": must be what the label of this name says, which is "A100"'
    )


@pytest.mark.parametrize("said", [{}, {MODELS: ""}, {DENIED: "", "sharedgpu/gpu_model_mix": ""}])
def test_nothing_is_said_by_empty_values(said: dict[str, str]) -> None:
    found = read(SHARE, said)
    assert found == read(SHARE)
    assert found.request is not None
    assert found.request.claims[0].claim.preferred is None


@pytest.mark.parametrize(
    ("key", "text", "rule"),
    [
        *((MODELS, text, "must be names of GPU models") for text in ("A100,", ">", "A > > B", " ")),
        *((MODELS, text, "must be names of GPU models") for text in ("A=B", "A[1]", "[A100]")),
        *((MODELS, text, "must be names of GPU models") for text in ("A100; T4", "x" * 254)),
        *((MODELS, text, "twice") for text in ("A100, a100", "A > B > A", "*, *", "A, A ")),
        *((MODELS, text, "at its end") for text in ("* > A100", "A100, *", "*, A100")),
        (MODELS, ",".join(f"m{number}" for number in range(MAX_NAMES + 1)), "more than 16"),
        *((key, "T4,A*1*0*0*x*", 'more than 4 "*" in a name') for key in (MODELS, DENIED)),
        (MODELS, "A" * (LONGEST_MODELS + 1), "longer"),
        *((DENIED, text, "must be names of GPU models") for text in ("A > B", "A,", "!A")),
        (DENIED, "*", "every model"),
        (DENIED, "T4, **", "every model"),
        (DENIED, ",".join(f"m{number}" for number in range(MAX_NAMES + 1)), "more than 16"),
        ("sharedgpu/gpu_model_mix", "Same", 'must be "same" or "any"'),
    ],
)
def test_what_cannot_be_understood_is_refused_by_name(key: str, text: str, rule: str) -> None:
    problem = problem_of(SHARE, **{key.removeprefix("sharedgpu/"): text})
    assert problem.field == key
    assert rule in problem.rule
    assert problem.value is not None
    assert len(problem.value) <= 61
    assert text.startswith(problem.value.removesuffix("…"))


def test_the_other_problems_come_first() -> None:
    found = read({**SHARE, "sharedgpu/gpu_mem": "x"}, {MODELS: ">"})
    assert found.problem is not None
    assert found.problem.field == "sharedgpu/gpu_mem"


def test_a_pod_without_cards_may_say_what_it_likes() -> None:
    assert read({}, {MODELS: ">"}) == read({})


def test_priority_and_group_outlast_a_problem() -> None:
    found = read({**SHARE, **keys(GROUP), "sharedgpu/priority": "9"}, {MODELS: ">"})
    assert found.problem is not None
    assert (found.priority, found.group is not None) == (9, True)


@pytest.mark.parametrize(
    ("labels", "mix", "one_model"),
    [
        (TWO, "same", True),
        (TWO, "any", False),
        (TWO, "", False),
        (SHARE, "same", False),
        ({**SHARE, **keys(GROUP)}, "same", True),
        ({**SHARE, **keys(GROUP)}, "any", False),
    ],
)
def test_one_model_can_be_asked_for_several_cards_and_for_gangs(
    labels: dict[str, str], mix: str, one_model: bool
) -> None:
    assert claim_of(labels, gpu_model_mix=mix).one_model is one_model
    assert claim_of({**labels, **keys({"gpu_model_mix": mix})}).one_model is one_model


@given(st.text("aA1,>* -._;[", max_size=40), st.text("aA1,>* -", max_size=20))
def test_any_text_is_understood_or_refused(models: str, denied: str) -> None:
    found = read(SHARE, {MODELS: models, DENIED: denied})
    assert (found.request is None) == (found.problem is not None)


def test_a_share_may_be_one_of_a_certain_model() -> None:
    assert claim_of(gpu_request_of="A100").share_of == "A100"
    assert claim_of(gpu_request_of=" GTX 1080 ").share_of == "GTX-1080"
    assert claim_of({**SHARE, "sharedgpu/gpu_request_of": "A100"}).share_of == "A100"
    assert claim_of().share_of == ""


@pytest.mark.parametrize(
    ("labels", "text", "rule"),
    [
        *((SHARE, text, "one GPU model") for text in ("*", "A*", "A100, T4", " ", "A > B")),
        (TWO, "A100", "not for whole ones"),
    ],
)
def test_a_share_is_of_one_model_and_of_one_card(
    labels: dict[str, str], text: str, rule: str
) -> None:
    problem = problem_of(labels, gpu_request_of=text)
    assert problem.field == "sharedgpu/gpu_request_of"
    assert rule in problem.rule
