"""What a pod asks for by the annotations of a SharePod."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dialects.api import GpuRequest, InvalidRequest, read
from kubeshare_py.dialects.dialects import DialectTable
from kubeshare_py.dialects.pod_request import read as read_pod
from kubeshare_py.dialects.sharepod import AMOUNTS, KEYS, SharePods
from kubeshare_py.domain.gpu import tag_of
from tests.dialects.sharepod_pods import README, asked, claim
from tests.scale import examples


def test_the_readmes_sharepod_gets_half_a_card_and_a_gib() -> None:
    found = asked()
    assert isinstance(found, GpuRequest)
    [only] = found.claims
    assert (only.claim.milli, only.claim.memory_bytes, only.limit_milli) == (500, 2**30, 1000)
    assert only.claim.is_named
    assert (found.dialect, found.needs_port, found.rounded) == ("sharepod", True, ())


@pytest.mark.parametrize(
    ("key", "text", "rule"),
    [
        ("gpu_request", "1.5", "must be a number from 0 to 1, such as 0.5"),
        ("gpu_request", "-0.1", "must be a number from 0 to 1, such as 0.5"),
        ("gpu_request", "half", "must be a number from 0 to 1, such as 0.5"),
        ("gpu_limit", "NaN", "must be a number from 0 to 1, such as 0.5"),
        ("gpu_limit", "1.0001", "must be a number from 0 to 1, such as 0.5"),
        ("gpu_limit", "0.3", "must not be above kubeshare/gpu_limit, which is 0.3"),
        ("gpu_mem", "1Gi", "must be a whole number of bytes, such as 1073741824"),
        ("gpu_mem", "-1", "must be a whole number of bytes, such as 1073741824"),
        ("gpu_mem", "9223372036854775807", "must be at most"),
        ("GPUID", "a b", "must be 1 to 63 letters, digits, dots, dashes and underscores"),
        ("sched_affinity", "a/b", "must be 1 to 63 letters"),
        ("sched_anti_affinity", "r" * 64, "must be 1 to 63 letters"),
        ("sched_exclusion", "é", "must be 1 to 63 letters"),
    ],
)
def test_a_wrong_value_is_named_with_its_annotation(key: str, text: str, rule: str) -> None:
    """1.0's scheduler drops such a SharePod without a word."""
    found = asked(**{key: text})
    assert isinstance(found, InvalidRequest)
    wrong = "gpu_request" if "which is" in rule else key.replace("anti_", "anti-")
    assert found.field == f"kubeshare/{wrong}"
    assert rule in str(found)


@pytest.mark.parametrize("key", AMOUNTS)
def test_one_amount_without_the_others_names_what_is_missing(key: str) -> None:
    """Request, limit and memory go together; 1.0's users saw nothing of a SharePod without one."""
    for annotations in ({**README, key: ""}, {one: README[one] for one in AMOUNTS if one != key}):
        found = read(SharePods(), annotations=annotations)
        assert isinstance(found, InvalidRequest)
        assert str(found) == (
            f"{key} is missing: a GPU is asked for by kubeshare/gpu_request, kubeshare/gpu_limit"
            " and kubeshare/gpu_mem together"
        )


def test_without_amounts_there_is_no_gpu_and_other_annotations_say_so() -> None:
    assert read(SharePods()) is None
    assert read(SharePods(), annotations=dict.fromkeys(KEYS, "")) is None
    found = read(SharePods(), annotations={"kubeshare/GPUID": "abcde"})
    assert isinstance(found, InvalidRequest)
    assert str(found).startswith("kubeshare/GPUID says nothing without kubeshare/gpu_request")


def test_words_become_tags_of_the_pods_namespace() -> None:
    words = {"sched_affinity": "red", "sched_anti_affinity": "green", "sched_exclusion": "blue"}
    expected = ["affinity=a/red", "anti-affinity=a/green", "exclusion=a/blue", "name=a/abcde"]
    tags = claim(namespace="a", GPUID="abcde", **words).tags
    assert sorted(map(str, tags)) == expected
    assert claim(sched_affinity="").tags == ()
    assert claim(sched_affinity="red").tags == (tag_of("affinity=default/red"),)


def test_namespaces_do_not_share_what_is_remembered() -> None:
    table, named = DialectTable((SharePods(),)), README | {"kubeshare/GPUID": "abcde"}
    tags = []
    for namespace in ("a", "b", "a"):
        found = read_pod({}, named, table=table, namespace=namespace).request
        assert found is not None
        assert found == read(SharePods(), annotations=named, namespace=namespace)
        tags += [tag.namespace for tag in found.claims[0].claim.tags]
    assert tags == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("share", "limit", "milli", "rounded"),
    [
        ("0.3333", "0.66666", (334, 667), ("kubeshare/gpu_request", "kubeshare/gpu_limit")),
        ("5e-1", "1", (500, 1000), ()),
        ("0", "0", (0, 1), ()),
        ("0.0001", "0.0005", (1, 1), ("kubeshare/gpu_request", "kubeshare/gpu_limit")),
        ("1", "1.0", (1000, 1000), ()),
    ],
)
def test_more_than_three_decimals_are_rounded_up_and_said(
    share: str, limit: str, milli: tuple[int, int], rounded: tuple[str, ...]
) -> None:
    """1.0 rounds the request in the same way, with floats."""
    found = asked(gpu_request=share, gpu_limit=limit)
    assert isinstance(found, GpuRequest)
    [only] = found.claims
    assert (only.claim.milli, only.limit_milli) == milli
    assert found.rounded == rounded


@examples(300)
@given(st.decimals(0, 1, places=6), st.decimals(0, 1, places=6), st.integers(0, 2**40))
def test_any_amounts_are_held_as_they_were_asked(share: object, limit: object, memory: int) -> None:
    found = asked(gpu_request=str(share), gpu_limit=str(limit), gpu_mem=str(memory))
    if Fraction(str(share)) > Fraction(str(limit)):
        assert isinstance(found, InvalidRequest)
        return
    assert isinstance(found, GpuRequest)
    [only] = found.claims
    assert only.claim.milli == ceil(Fraction(str(share)) * 1000)
    assert only.limit_milli == max(1, ceil(Fraction(str(limit)) * 1000))
    assert only.claim.memory_bytes == memory


def test_where_no_profile_reads_them_they_are_not_known() -> None:
    problem = read_pod({}, README).problem
    assert problem is not None
    assert "annotation kubeshare/gpu_limit is not known" in str(problem)
