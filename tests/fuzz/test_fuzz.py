"""Odd inputs with a fixed seed; `make prove` tries a million with a fresh one."""

import json
from random import Random

import pytest

from tests.fuzz import objects, odd
from tests.fuzz.families import FAMILIES
from tests.fuzz.family import Family
from tests.fuzz.running import Chunk, chunks, run
from tests.fuzz.shrinking import shrunken
from tests.scale import scaled

_INPUTS, _SEED = scaled(6000, 1500), 20261122


@pytest.mark.parametrize("chunk", chunks(_INPUTS, _SEED), ids=lambda chunk: chunk.family)
def test_every_odd_input_is_taken_or_refused_in_its_place(chunk: Chunk) -> None:
    outcome = run(chunk)
    assert not outcome.failure, outcome.failure
    assert outcome.inputs >= chunk.inputs


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_same_seed_makes_the_same_inputs_and_others_make_others(family: Family) -> None:
    given = [family.input(1, index) for index in range(20)]
    assert given == [family.input(1, index) for index in range(20)]
    assert given != [family.input(2, index) for index in range(20)]


def test_the_inputs_are_as_many_as_are_asked_for_and_in_every_family() -> None:
    work = chunks(100_000, 1)
    assert sum(chunk.inputs for chunk in work) == pytest.approx(100_000, rel=0.001)
    assert {chunk.family for chunk in work} == {family.name for family in FAMILIES}


@pytest.mark.slow
def test_a_failing_input_is_made_smaller_and_fails_alike() -> None:
    def judge(given: bytes) -> None:
        assert b"bad" not in given

    pod = odd.changed(Random(1), json.loads(objects.POD_TEXTS[0]))
    pod["spec"]["tolerations"].append({"key": "a bad one"})
    assert shrunken(judge, json.dumps(pod).encode()) == (
        b'{"spec": {"tolerations": [{"key": "bad"}]}}'
    )
