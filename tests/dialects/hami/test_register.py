"""The text in which a device plugin says which cards its node has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.dialects.hami.annotations import (
    MigPlace,
    MigProfile,
    RegisteredCard,
    read_register,
    write_json,
    write_records,
)

A100 = RegisteredCard(
    uuid="GPU-a", count=10, memory_mib=40960, cores=100, type="NVIDIA A100-SXM4-40GB",
    mode="hami-core", health=True,
)  # fmt: skip
_WORDS = st.text(st.characters(exclude_characters=",:", exclude_categories=["Cs"]), max_size=9)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_PROFILES = st.builds(
    MigProfile,
    name=_WORDS,
    memory_mib=_INT32,
    cores=_INT32,
    slices=st.integers(0, 9),
    placements=st.lists(st.builds(MigPlace, st.integers(0, 9), st.integers(0, 9))).map(tuple),
)
CARDS = st.builds(
    RegisteredCard, uuid=_WORDS, index=st.integers(0, 2**63 - 1), count=_INT32, memory_mib=_INT32,
    cores=_INT32, type=_WORDS, numa=st.integers(-(2**63), 2**63 - 1), mode=_WORDS,
    health=st.booleans(),
)  # fmt: skip
WITH_PROFILES = st.builds(
    RegisteredCard,
    uuid=_WORDS,
    type=_WORDS,
    mig_profiles=st.lists(_PROFILES, max_size=2).map(tuple),
)


def test_the_list_leaves_out_what_is_nothing() -> None:
    """HAMi's JSON has no index, numa and health where they are 0, 0 and false."""
    text = (
        '[{"id":"GPU-a","count":10,"devmem":40960,"devcore":100,'
        '"type":"NVIDIA A100-SXM4-40GB","mode":"hami-core","health":true}]'
    )
    assert write_json([A100]) == text
    assert read_register(f"{text}\n") == (A100,)
    assert read_register('[{"id":"x"}]') == (RegisteredCard(uuid="x", index=0, health=False),)


def test_records_of_the_ancestor_have_index_0_and_the_mode_of_the_library() -> None:
    """Its records have seven fields; HAMi's have nine, with index and mode as the last two."""
    card = RegisteredCard(
        uuid="GPU-ebe7c3f7", count=10, memory_mib=7680, cores=100, type="NVIDIA-Tesla P4",
        health=True, mode="hami-core",
    )  # fmt: skip
    text = "GPU-ebe7c3f7,10,7680,100,NVIDIA-Tesla P4,0,true:"
    assert read_register(text) == (card,)
    assert write_records([card], as_seed=True) == text
    assert read_register("GPU-e,10,7680,100,P4,1,t,3,mig:") == (
        RegisteredCard(
            uuid="GPU-e", count=10, memory_mib=7680, cores=100, type="P4", numa=1, health=True,
            index=3, mode="mig",
        ),
    )  # fmt: skip


@pytest.mark.parametrize("text", [":", "::", "[]", "null"])
def test_a_node_without_cards_is_read(text: str) -> None:
    """An empty JSON list, and records of which there are none, are no error."""
    assert read_register(text) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("garbage", "the end of a record is missing"),
        ("garbage:", "'garbage': has 1 fields, not 7 or 9"),
        (",:", "',': has 2 fields, not 7 or 9"),
        ("a,1,1,1,t:", "'a,1,1,1,t': has 5 fields, not 7 or 9"),
        ("u,x,1,1,t,0,true:", "'u,x,1,1,t,0,true': count is no number"),
        ("u,1,x,1,t,0,true:", "'u,1,x,1,t,0,true': memory is no number"),
        ("u,1,1,x,t,0,true:", "'u,1,1,x,t,0,true': core is no number"),
        ("u,1,1,1,t,x,true:", "'u,1,1,1,t,x,true': numa is no number"),
        ("u,1,1,1,t,0,yes:", "'u,1,1,1,t,0,yes': health is neither true nor false"),
        ("u,1,1,1,t,0,true,x,m:", "'u,1,1,1,t,0,true,x,m': index is no number from 0 on"),
        ("u,1,1,1,t,0,true,-1,m:", "'u,1,1,1,t,0,true,-1,m': index is no number from 0 on"),
        ('[{"id":1}]', "Expected `str`, got `int` - at `$[0].id`"),
    ],
)
def test_a_text_in_another_form_gets_a_sentence(text: str, problem: str) -> None:
    """Each field that cannot be read has an error of its own, as has a wrong number of fields."""
    assert read_register(text) == problem


@given(st.lists(CARDS | WITH_PROFILES, max_size=4).map(tuple))
def test_what_is_written_as_a_list_is_read_alike(cards: tuple[RegisteredCard, ...]) -> None:
    assert read_register(write_json(cards)) == cards


@given(st.lists(CARDS, min_size=1, max_size=4).map(tuple))
def test_what_is_written_as_records_is_read_alike(cards: tuple[RegisteredCard, ...]) -> None:
    text = write_records(cards)
    if text.lstrip()[:1] not in ("[", "n"):
        assert read_register(text) == cards


@given(st.text(st.sampled_from('aU1,:;[]{}"-+ t'), max_size=40))
def test_any_text_is_read_or_gets_a_sentence(text: str) -> None:
    assert isinstance(read_register(text), (str, tuple))
