from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.pod import PodGroup
from kubeshare_py.domain.request import GpuClaim, GpuRequest, InvalidRequest
from tests.dialects.parsed import ParsedRequest, read

LIMIT, REQUEST, MEMORY = "sharedgpu/gpu_limit", "sharedgpu/gpu_request", "sharedgpu/gpu_mem"
PRIORITY, MODEL = "sharedgpu/priority", "sharedgpu/gpu_model"
NUMA_BIND, EXCLUSIVE = "sharedgpu/numa_bind", "sharedgpu/gpu_exclusive"
HEADCOUNT, THRESHOLD = "sharedgpu/group_headcount", "sharedgpu/group_threshold"


def asked(**labels: str) -> ParsedRequest:
    return read({f"sharedgpu/{name}": value for name, value in labels.items()})


def request_of(**labels: str) -> GpuRequest:
    found = asked(**labels)
    assert found.problem is None
    assert found.request is not None
    return found.request


def problem_of(**labels: str) -> InvalidRequest:
    found = asked(**labels)
    assert found.problem is not None
    assert found.request is None
    return found.problem


def group_of(headcount: str, threshold: str) -> PodGroup | None:
    found = asked(group_name="g", group_headcount=headcount, group_threshold=threshold)
    assert found.problem is None
    return found.group


# --- amounts -------------------------------------------------------------------------------------


def test_half_a_card_is_a_shared_opportunistic_pod() -> None:
    assert asked(gpu_limit="1.0", gpu_request="0.5") == ParsedRequest(
        request=GpuRequest.of_pod(
            GpuClaim(milli=500), dialect="sharedgpu", limit_milli=1000, needs_port=True
        )
    )


@pytest.mark.parametrize("text", ["1", "1.0", "1.000", "01", "1.0000"])
def test_a_whole_card_is_still_shared(text: str) -> None:
    request = request_of(gpu_limit=text, gpu_request=text)
    assert request.claims[0].claim == GpuClaim(milli=1000)
    assert request.needs_port
    assert request.rounded == ()


@pytest.mark.parametrize(
    ("text", "count"),
    [("2", 2), ("2.0", 2), ("3.000", 3), ("10", 10), ("100", 100), ("101", 101), ("20.0", 20)],
)
def test_more_than_one_card_is_taken_exclusively_and_needs_no_port(text: str, count: int) -> None:
    request = request_of(gpu_limit=text, gpu_request=text)
    assert request.claims[0].claim == GpuClaim(count=count, milli=1000, exclusive=True)
    assert not request.needs_port
    assert request.claims[0].limit_milli == 1000 * count


@pytest.mark.parametrize(("limit", "request_"), [("2", "2.0"), ("3.0", "3"), ("002", "2")])
def test_equal_amounts_may_be_written_differently(limit: str, request_: str) -> None:
    assert request_of(gpu_limit=limit, gpu_request=request_).claims[0].claim.exclusive


@pytest.mark.parametrize(
    ("text", "milli"), [("0.5", 500), ("00.5", 500), ("0.50", 500), ("0.001", 1), ("0.999", 999)]
)
def test_decimals_are_read_exactly(text: str, milli: int) -> None:
    assert request_of(gpu_limit="1", gpu_request=text).claims[0].claim.milli == milli


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "0x5", "1..0", "1.", ".5", "0.", "-1", "-0.5", "+1", "1e1", "0e5", "0,5", "0-5"),
        *("1.0 ", " 1.0", "1.0\n", "abc", "nan", "inf", "1_0", "\u0661", "1/2", "9" * 64),
    ],
)
@pytest.mark.parametrize("label", ["gpu_limit", "gpu_request"])
def test_what_is_no_plain_decimal_is_refused_by_name(label: str, text: str) -> None:
    labels = {"gpu_limit": "1.0", "gpu_request": "0.5"} | {label: text}
    problem = problem_of(**labels)
    assert (problem.field, problem.value) == (f"sharedgpu/{label}", text)
    assert "must be a decimal number" in problem.rule


@given(st.integers(0, 1000), st.integers(0, 3), st.integers(0, 3))
def test_every_share_of_at_most_three_decimals_is_exact(milli: int, pad: int, zeros: int) -> None:
    text = "0" * pad + f"{milli // 1000}.{milli % 1000:03d}" + "0" * zeros
    request = request_of(gpu_limit="1", gpu_request=text)
    assert request.claims[0].claim.milli == milli
    assert request.rounded == ()


@given(st.integers(0, 10**12).map(lambda n: f"0.{n:012d}"[:14]), st.integers(0, 10**9).map(str))
def test_more_decimals_are_rounded_up_and_recorded(text: str, tail: str) -> None:
    text += tail
    exact = Fraction(text) * 1000
    request = request_of(gpu_limit="1", gpu_request=text)
    assert 0 <= request.claims[0].claim.milli - exact < 1
    assert request.rounded == ((REQUEST,) if exact.denominator != 1 else ())


def test_a_limit_is_rounded_up_and_recorded_too() -> None:
    request = request_of(gpu_limit="0.33334", gpu_request="0.3333")
    assert (request.claims[0].claim.milli, request.claims[0].limit_milli) == (334, 334)
    assert request.rounded == (LIMIT, REQUEST)


def test_a_share_just_below_one_becomes_a_whole_shared_card() -> None:
    request = request_of(gpu_limit="1", gpu_request="0.99" + "9" * 58)
    assert request.claims[0].claim == GpuClaim(milli=1000)
    assert request.needs_port


# --- limit and request ---------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["1", "x"])
def test_memory_alone_asks_for_no_card(memory: str) -> None:
    assert str(problem_of(gpu_mem=memory)) == (
        "sharedgpu/gpu_mem alone asks for no card: add sharedgpu/gpu_request,"
        " or sharedgpu/gpu_limit for a card without a share"
    )


@pytest.mark.parametrize("request_", ["0", "0.0", "0.5", "1", "1.00", "2", "3.0", "1000000"])
def test_without_a_limit_a_share_may_use_its_card_and_whole_cards_are_whole(request_: str) -> None:
    limit = request_ if Decimal(request_) > 1 else "1.0"
    assert asked(gpu_request=request_) == asked(gpu_request=request_, gpu_limit=limit)
    assert request_of(gpu_request=request_, gpu_mem="8").claims[0].claim.count == max(
        1, int(float(request_))
    )


@pytest.mark.parametrize(
    ("request_", "rule"),
    [
        ("1.5", "must be a whole number of cards when it is above 1"),
        ("1000001", "must be at most 1000000"),
        ("half", "must be a decimal number, digits with at most one point, such as 0.5, 1 or 2.0"),
        ("", "must be a decimal number, digits with at most one point, such as 0.5, 1 or 2.0"),
    ],
)
def test_a_request_alone_is_named_when_it_is_wrong(request_: str, rule: str) -> None:
    assert str(problem_of(gpu_request=request_)) == f'{REQUEST}="{request_}": {rule}'


def test_an_empty_limit_is_no_missing_one() -> None:
    assert problem_of(gpu_request="0.5", gpu_limit="").field == LIMIT


def test_a_request_above_its_limit_is_refused() -> None:
    problem = problem_of(gpu_limit="0.3", gpu_request="0.5")
    assert str(problem) == (
        'sharedgpu/gpu_request="0.5": must not be above sharedgpu/gpu_limit, which is 0.3'
    )


@pytest.mark.parametrize(
    ("limit", "request_", "label"),
    [
        ("2.5", "2", LIMIT),
        ("2.5", "2.5", LIMIT),
        ("1.5", None, LIMIT),
        ("1.0001", "0.5", LIMIT),
        ("1000001", None, LIMIT),
        ("9" * 63, "9" * 63, LIMIT),
        ("3.0", "2.0", REQUEST),
        ("2", "1.5", REQUEST),
        ("2", "0", REQUEST),
        ("1", "1.0000001", REQUEST),
    ],
)
def test_above_one_only_equal_whole_numbers(limit: str, request_: str | None, label: str) -> None:
    labels = {"gpu_limit": limit} | ({} if request_ is None else {"gpu_request": request_})
    assert problem_of(**labels).field == label


@pytest.mark.parametrize("limit", ["0", "0.0", "000", "0.000000"])
@pytest.mark.parametrize("request_", [None, "0", "0.00"])
def test_zero_means_no_gpu(limit: str, request_: str | None) -> None:
    labels = {"gpu_limit": limit} | ({} if request_ is None else {"gpu_request": request_})
    assert asked(**labels, gpu_mem="not even read") == ParsedRequest()


@pytest.mark.parametrize(("limit", "milli"), [("1.0", 1000), ("0.5", 500), ("2.0", 2000)])
def test_a_limit_alone_shares_a_card_with_a_request_of_nothing(limit: str, milli: int) -> None:
    request = request_of(gpu_limit=limit)
    assert request.claims[0].claim == GpuClaim(milli=0)
    assert request.claims[0].limit_milli == milli
    assert request.needs_port


@pytest.mark.parametrize("labels", [{}, {MODEL: "Tesla-V100"}, {"app": "web"}, {PRIORITY: "5"}])
def test_without_amounts_a_pod_asks_for_no_gpu(labels: dict[str, str]) -> None:
    found = read(labels)
    assert (found.request, found.problem) == (None, None)


# --- memory and model ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "memory"),
    [("1073741824", 2**30), ("0", None), ("007", 7), (str(2**48), 2**48)],
)
def test_memory_is_in_bytes_and_nothing_leaves_it_to_the_share(
    text: str, memory: int | None
) -> None:
    request = request_of(gpu_limit="1", gpu_request="0.5", gpu_mem=text)
    assert request.claims[0].claim.memory_bytes == memory


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        *(("8Gi", 8 * 2**30), ("8G", 8 * 10**9), ("512Mi", 2**29), ("1e9", 10**9), ("1E3", 1000)),
        *(("1.5Gi", 3 * 2**29), ("0.1Ki", 103), ("0Gi", None), ("007Ki", 7168), ("1k", 1000)),
        *(("256Ti", 2**48), ("1T", 10**12)),
    ],
)
def test_memory_may_have_a_unit_and_is_rounded_up_to_bytes(text: str, memory: int | None) -> None:
    request = request_of(gpu_limit="1", gpu_request="0.5", gpu_mem=text)
    assert request.claims[0].claim.memory_bytes == memory


@pytest.mark.parametrize("text", [str(2**48 + 1), str(2**63 - 1), "1Pi", "1E", "9e999"])
def test_memory_beyond_any_card_is_refused(text: str) -> None:
    problem = problem_of(gpu_limit="1", gpu_request="0.5", gpu_mem=text)
    assert str(problem) == f'{MEMORY}="{text}": must be at most {2**48} bytes a card'
    assert (
        request_of(gpu_limit="4", gpu_request="4", gpu_mem="1Pi").claims[0].claim.memory_bytes
        == 2**48
    )


@pytest.mark.parametrize(
    "text",
    [
        *(
            "-1",
            "",
            "1.0",
            "0.5",
            "0x10",
            " 1",
            "1_0",
            str(2**63),
            "8gi",
            "8GB",
            "8GiB",
            "8K",
            "Gi",
        ),
        *("512m", "1n", "1u", "1e-3", "-1Gi", "1 Gi", "1e9999", ".5Gi", "1.Gi", "1Gi\n"),
    ],
)
def test_memory_with_another_unit_or_a_sign_is_refused(text: str) -> None:
    problem = problem_of(gpu_limit="1", gpu_request="0.5", gpu_mem=text)
    assert str(problem) == (
        f'{MEMORY}="{text}": must be a whole number of bytes, such as 1073741824,'
        " or have a unit, such as 8Gi"
    )


@pytest.mark.parametrize(("total", "each"), [("10", 4), ("9", 3), ("1", 1), ("0", None)])
def test_memory_of_several_cards_is_their_total(total: str, each: int | None) -> None:
    claim = request_of(gpu_limit="3", gpu_request="3", gpu_mem=total).claims[0].claim
    assert (claim.count, claim.memory_bytes) == (3, each)


@pytest.mark.parametrize(("labels", "models"), [({}, ()), ({"gpu_model": ""}, ())])
def test_no_model_is_any_model(labels: dict[str, str], models: tuple[str, ...]) -> None:
    assert request_of(gpu_limit="1", **labels).claims[0].claim.models == models


def test_a_model_is_taken_literally() -> None:
    claim = request_of(gpu_limit="1", gpu_model="Tesla-V100-PCIE-32GB").claims[0].claim
    assert claim.models == ("Tesla-V100-PCIE-32GB",)


# --- priority ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "priority", "guarantee"),
    [
        *(("-1", -1, False), ("0", 0, False), ("", 0, False)),
        *(("1", 1, True), ("50", 50, True), ("100", 100, True), ("007", 7, True)),
    ],
)
def test_a_priority_above_zero_is_a_guarantee(text: str, priority: int, guarantee: bool) -> None:
    found = asked(gpu_limit="1", gpu_request="0.5", priority=text)
    assert found.request is not None
    assert (found.priority, found.request.guarantee) == (priority, guarantee)


@pytest.mark.parametrize("text", ["101", "abc", "-2", "1.0", "1e1", " 5", "5 ", "9" * 40])
def test_a_priority_outside_its_range_is_refused_even_without_a_gpu(text: str) -> None:
    problem = problem_of(priority=text)
    assert (problem.field, problem.value) == (PRIORITY, text)
    assert problem.rule == "must be an integer from -1 to 100"


def test_a_pod_without_a_gpu_keeps_its_priority() -> None:
    assert asked(priority="7").priority == 7


# --- groups --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headcount", "threshold", "least"),
    [
        *(("5", "0.2", 1), ("10", "0.2", 2), ("3", "0.5", 2), ("10", "0.25", 3), ("1", "0.2", 0)),
        *(("4", ".6", 2), ("5", "0.5", 3), ("7", "0.33", 2), ("2", "0.25", 1), ("1", "0.5", 1)),
        *(("2", "0.2", 0), ("10", "0.04", 0), ("3", "1.0", 3), ("3", "1", 3), ("2", "1.2", 2)),
        *(("10", "2e-1", 2), ("10", "+0.2", 2), ("100", "5E-1", 50), ("3", "1e-99", 0)),
    ],
)
def test_the_minimum_is_the_rounded_share_of_the_headcount(
    headcount: str, threshold: str, least: int
) -> None:
    group = group_of(headcount, threshold)
    assert group == PodGroup(name="g", headcount=int(headcount), min_available=least)


@given(st.integers(1, 10**6), st.integers(1, 10**6).map(lambda n: Decimal(n) / 10**6))
def test_the_minimum_is_computed_exactly(headcount: int, threshold: Decimal) -> None:
    group = group_of(str(headcount), f"{threshold:f}")
    assert group is not None
    doubled = 2 * Fraction(threshold) * headcount + 1
    assert group.min_available == doubled.numerator // doubled.denominator // 2


@pytest.mark.parametrize("missing", ["group_name", "group_headcount", "group_threshold"])
@pytest.mark.parametrize("how", ["absent", "empty"])
def test_a_group_without_all_three_parts_is_no_group(missing: str, how: str) -> None:
    labels = {"group_name": "g", "group_headcount": "3", "group_threshold": "0.5"}
    if how == "empty":
        labels[missing] = ""
    else:
        del labels[missing]
    assert asked(**labels) == ParsedRequest()


@pytest.mark.parametrize(
    ("label", "texts"),
    [
        ("group_headcount", ["0", "-3", "x", "2.0", "1e1", "9" * 30]),
        ("group_threshold", ["0", "-0.5", "x", "nan", "inf", "0x1p-1", "1e", "1_0", "1e9999", "."]),
    ],
)
def test_a_malformed_part_of_a_group_is_refused_by_name(label: str, texts: list[str]) -> None:
    for text in texts:
        labels = {"group_name": "g", "group_headcount": "3", "group_threshold": "0.5"}
        problem = problem_of(**(labels | {label: text}))
        assert (problem.field, problem.value) == (f"sharedgpu/{label}", text)


@pytest.mark.parametrize(("headcount", "threshold"), [("3", "1.5"), ("1", "2"), ("5", "1e999")])
def test_a_minimum_above_the_headcount_is_refused(headcount: str, threshold: str) -> None:
    problem = problem_of(group_name="g", group_headcount=headcount, group_threshold=threshold)
    assert problem.field == THRESHOLD
    assert "can never be met" in problem.rule


def test_a_group_may_be_named_as_the_manual_says() -> None:
    found = asked(pod_group_name="g", group_headcount="2", group_threshold="1")
    assert found.group == PodGroup(name="g", headcount=2, min_available=2)


def test_of_both_group_names_the_one_of_the_code_counts() -> None:
    found = asked(group_name="a", pod_group_name="b", group_headcount="2", group_threshold="1")
    assert found.group is not None
    assert found.group.name == "a"


def test_a_group_member_needs_no_gpu_and_keeps_its_request_if_it_has_one() -> None:
    group = {"group_name": "g", "group_headcount": "2", "group_threshold": "1"}
    assert asked(**group).request is None
    found = asked(**group, gpu_limit="1", gpu_request="0.5", priority="9")
    assert found.request == request_of(gpu_limit="1", gpu_request="0.5", priority="9")
    assert found.group is not None
    assert found.priority == 9


# --- order ---------------------------------------------------------------------------------------


def test_the_first_problem_in_kubeshares_order_is_reported() -> None:
    order = {
        HEADCOUNT: "x",
        THRESHOLD: "x",
        PRIORITY: "x",
        LIMIT: "x",
        REQUEST: "x",
        MEMORY: "x",
    }
    good = {LIMIT: "1", REQUEST: "0.5"}
    labels = dict(reversed(order.items()))
    for label in order:
        problem = read(labels).problem
        assert problem is not None
        assert problem.field == label
        labels.pop(label)
        labels |= {label: good[label]} if label in good else {}


@pytest.mark.parametrize(
    ("text", "expected"), [("true", True), ("false", False), ("", False), (None, False)]
)
def test_several_cards_may_have_to_be_near_one_numa_node(text: str | None, expected: bool) -> None:
    labels = {LIMIT: "2", REQUEST: "2"} | ({NUMA_BIND: text} if text is not None else {})
    request = read(labels).request
    assert request is not None
    assert request.claims[0].claim.one_numa_node is expected


def test_a_single_card_is_near_one_anyway() -> None:
    request = read({LIMIT: "1", NUMA_BIND: "true"}).request
    assert request is not None
    assert not request.claims[0].claim.one_numa_node


def test_numa_bind_is_true_or_false() -> None:
    problem = read({LIMIT: "1", NUMA_BIND: "yes"}).problem
    assert str(problem) == 'sharedgpu/numa_bind="yes": must be "true" or "false"'


@pytest.mark.parametrize(
    ("labels", "count"),
    [({}, 1), ({LIMIT: "1.0"}, 1), ({REQUEST: "1"}, 1), ({LIMIT: "2"}, 2), ({REQUEST: "02.0"}, 2)],
)
def test_whole_cards_may_be_for_one_pod_alone(labels: dict[str, str], count: int) -> None:
    request = read({**labels, EXCLUSIVE: "true"}).request
    assert request is not None
    [one] = request.claims
    assert one.claim == GpuClaim(count=count, milli=1000, exclusive=True)
    assert (one.limit_milli, request.needs_port) == (count * 1000, False)


@pytest.mark.parametrize(
    "labels", [{LIMIT: "0"}, {REQUEST: "0.5"}, {LIMIT: "1", REQUEST: "0"}, {LIMIT: "x"}]
)
def test_a_part_of_a_card_is_never_for_one_pod_alone(labels: dict[str, str]) -> None:
    assert str(read({**labels, EXCLUSIVE: "true"}).problem) == (
        'sharedgpu/gpu_exclusive="true": is for whole cards, so sharedgpu/gpu_request and '
        "sharedgpu/gpu_limit must be whole numbers above 0"
    )


@pytest.mark.parametrize("text", ["false", ""])
def test_a_pod_that_shares_its_card_may_say_so(text: str) -> None:
    assert read({EXCLUSIVE: text}) == ParsedRequest()
    half = {LIMIT: "1", REQUEST: "0.5"}
    assert read({**half, EXCLUSIVE: text}) == read(half)


def test_the_problem_of_a_number_of_exclusive_cards_names_the_label_that_has_it() -> None:
    for label in (LIMIT, REQUEST):
        problem = read({label: "1000001", EXCLUSIVE: "true"}).problem
        assert str(problem) == f'{label}="1000001": must be at most 1000000'
    assert str(read({EXCLUSIVE: "yes"}).problem) == (
        'sharedgpu/gpu_exclusive="yes": must be "true" or "false"'
    )


def test_what_was_understood_before_the_problem_is_kept() -> None:
    found = asked(
        group_name="g", group_headcount="2", group_threshold="1", priority="9", gpu_limit="x"
    )
    assert found.problem is not None
    assert found.group is not None
    assert found.priority == 9


@given(
    st.dictionaries(
        st.sampled_from(
            [
                LIMIT,
                REQUEST,
                MEMORY,
                MODEL,
                NUMA_BIND,
                EXCLUSIVE,
                PRIORITY,
                HEADCOUNT,
                THRESHOLD,
                "sharedgpu/group_name",
                "sharedgpu/pod_group_name",
            ]
        ),
        st.text("0123456789.eE+-x Gi٣", max_size=70),
    )
)
def test_no_labels_make_it_raise(labels: dict[str, str]) -> None:
    found = read(labels)
    assert found.request is None or found.problem is None
