"""Whatever the files of people say, they are read or refused with a place, and used or not."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.documents.yaml_text import read_yaml
from tests.documents.examples import KINDS, REFUSED
from tests.odd_input import as_json, changed
from tests.scale import examples


@pytest.mark.parametrize("kind", KINDS)
def test_the_examples_are_used(kind: str) -> None:
    expect_usable, examples = KINDS[kind]
    for example in examples:
        expect_usable(example)


@pytest.mark.parametrize("kind", KINDS)
@examples(50)
@given(data=st.data())
def test_any_change_of_an_example_is_used_or_refused(kind: str, data: st.DataObject) -> None:
    expect_usable, examples = KINDS[kind]
    odd = data.draw(changed(data.draw(st.sampled_from(examples))))
    with contextlib.suppress(*REFUSED):
        expect_usable(read_yaml(as_json(odd), "here.yaml"))
