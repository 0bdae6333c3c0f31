"""The one reader of YAML: plain data, or a problem with its line and column, and nothing else."""

import contextlib
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.documents import yaml_text
from kubeshare_py.documents.yaml_text import (
    FAST_PARSER,
    MAX_BYTES,
    Parser,
    YamlProblem,
    memory_bytes,
    read_yaml,
    read_yaml_documents,
)
from tests.documents.examples import KINDS, REFUSED
from tests.odd_input import as_json, changed
from tests.scale import examples

CONFIG = Path(__file__).parents[2] / "config"
EXAMPLES = sorted(path for path in CONFIG.rglob("*.yaml"))
PARSERS = pytest.mark.parametrize("parser", [FAST_PARSER, yaml.SafeLoader], ids=["fast", "python"])
CHARACTERS = "\n\n  --::,[]{}&*!|>'\"#%@`?~<<0123456789.eE+_xXaInNtTrR\t\r\0\x85\ufeff\ud800"


def problem(text: bytes | str, parser: Parser = FAST_PARSER) -> YamlProblem:
    with pytest.raises(YamlProblem) as caught:
        read_yaml(text, "here.yaml", parser)
    return caught.value


@pytest.mark.slow
@PARSERS
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_mean_what_pyyaml_says(path: Path, parser: Parser) -> None:
    wanted = tuple(yaml.safe_load_all(path.read_text()))
    assert read_yaml_documents(path.read_bytes(), path.name, parser) == wanted


@PARSERS
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing", None),
        ("~", None),
        ("'~'", "~"),
        ("yes", True),
        ("off", False),
        ("y", "y"),
        ("010", 8),
        ("0x1F", 31),
        ("0b101", 5),
        ("-12_000", -12000),
        ("0", 0),
        ("0_", "0_"),
        ("1.5", 1.5),
        ("1.0e+3", 1000.0),
        (".5", 0.5),
        ("-.5", "-.5"),
        ("1e3", "1e3"),
        ("2026-02-30", "2026-02-30"),
        ("12:30:45", "12:30:45"),
        ("! 12", "12"),
        ("!!str 12", "12"),
        ("!!float 1", 1),
        ("!!int '7'", 7),
        ("!!seq [a]", ["a"]),
        ("|\n  a\n  b\n", "a\nb\n"),
        ("{010: a, on: b, ~: c}", {"010": "a", "on": "b", "~": "c"}),
        ("a: &x [1]\nb: *x\nc: &x 2\nd: *x", {"a": [1], "b": [1], "c": 2, "d": 2}),
        ("{&k a: 1, b: *k}", {"a": 1, "b": "a"}),
        ("- &x {a: 1, b: 1}\n- {<<: *x, b: 2}", [{"a": 1, "b": 1}, {"a": 1, "b": 2}]),
        ("{<<: [{a: 1}, {a: 2, b: 2}], c: 3}", {"a": 1, "b": 2, "c": 3}),
        ("{'<<': 1}", {"<<": 1}),
        ("\ufeffa: 1", {"a": 1}),
        ("ä: ü", {"ä": "ü"}),
    ],
)
def test_what_is_written_is_what_is_meant(text: str, value: object, parser: Parser) -> None:
    for data in (text, text.encode(), text.removeprefix("\ufeff").encode("utf-16")):
        assert read_yaml(data, "here.yaml", parser) == value


@PARSERS
@pytest.mark.parametrize(
    ("text", "place", "rule"),
    [
        ("a: 1\nb: 2\n  c: 3", (3, 4), "is not YAML: mapping values are not allowed"),
        ("x: 1\nx: 2", (2, 1), "'x' is there twice, first in line 1"),
        ("{<<: {}, <<: {}}", (1, 10), "'<<' is there twice, first in line 1"),
        ("x: !!bool x", (1, 4), "'x' is no !!bool"),
        ("x: !!int yes", (1, 4), "'yes' is no !!int"),
        ('x: !!int ""', (1, 4), "'' is no !!int"),
        ("x: !!timestamp 2026-02-30", (1, 4), "the tag tag:yaml.org,2002:timestamp is not"),
        ("x: !include y", (1, 4), "the tag !include is not understood"),
        ("x: !!set {y}", (1, 4), "the tag tag:yaml.org,2002:set is not understood"),
        ("- " + "9" * 5000, (1, 3), "a number of more than 64 bits"),
        ("- 18446744073709551616", (1, 3), "a number of more than 64 bits"),
        ("- -.inf", (1, 3), "-.inf is not a number"),
        ("- .nan", (1, 3), ".nan is not a number"),
        ("- 9.0e+999", (1, 3), "a number that is too large"),
        ("[" * 3000, (1, 65), "lists and mappings in each other, more than 64 deep"),
        ("? [a]\n: b", (1, 3), "a list or mapping cannot be a key"),
        ("- &x 1\n- {*x : 2}", (2, 4), "an alias cannot be a key"),
        ("- *x", (1, 3), "no anchor &x ends before this place"),
        ("a: &x [*x]", (1, 8), "no anchor &x ends before this place"),
        ("<<: 3", (1, 5), "<< takes a mapping, or a list of mappings"),
        ("a: 1\n--- \nb: 2", (2, 1), "a second document, where one is wanted"),
        ("a: b\nc: \0", (2, 4), "the character U+0000 cannot be in YAML"),
        ("a: \ud800", (1, 4), "the character U+D800 cannot be in YAML"),
        ('a: "\\0"', (1, 4), "a text with a character that cannot be in one"),
    ],
)
def test_a_mistake_is_named_with_its_place(
    text: str, place: tuple[int, int], rule: str, parser: Parser
) -> None:
    found = problem(text, parser)
    assert ((found.line, found.column), found.rule[: len(rule)]) == (place, rule)
    assert str(found) == f"here.yaml: line {place[0]}, column {place[1]}: {found.rule}"


@PARSERS
@pytest.mark.parametrize("text", ["%YAML 1." + "9" * 5000 + "\n--- a", 'a: "\\UFFFFFFFF"'])
def test_what_the_parser_itself_cannot_take_is_a_problem(text: str, parser: Parser) -> None:
    assert problem(text, parser).rule.startswith("is not YAML: ")


def test_what_is_not_closed_is_named_with_where_it_begins() -> None:
    found = problem("a:\n  b: [1\n\n")
    assert found.rule.endswith("(while parsing a flow sequence that begins in line 2)")


def test_bytes_that_are_no_text_are_named_with_their_place() -> None:
    found = problem(b"a: b\nc: \xc3\x28")
    assert (found.line, found.column, found.rule.partition(":")[0]) == (2, 4, "is not UTF-8")
    assert problem(b"\xff\xfea").rule.startswith("is not UTF-16: ")


def test_a_text_that_is_too_large_is_refused() -> None:
    assert problem(b"#" * (MAX_BYTES + 1)).rule == "is larger than 16 MiB"


@PARSERS
def test_aliases_count_as_what_they_stand_for(parser: Parser) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 12)]
    assert problem("\n".join(lines), parser).rule.startswith("more than 1000000 values")
    merged = "- &x {a: &y [1, 2], b: *y}\n" + "- {<<: *x}\n" * 3
    assert read_yaml(merged, "") == [{"a": [1, 2], "b": [1, 2]}] * 4


def test_a_long_text_is_not_repeated_in_the_message() -> None:
    key = "k" * 100_000
    assert len(str(problem(f"{{{key}: 1, {key}: 2}}"))) < 300
    assert len(str(problem(f"*{key}"))) < 300


def expect_data_or_problem(text: str | bytes, parser: Parser) -> None:
    """Any other error than a YamlProblem is raised."""
    with contextlib.suppress(YamlProblem):
        read_yaml_documents(text, "here.yaml", parser)


@PARSERS
@given(data=st.data())
def test_any_text_is_data_or_a_problem(parser: Parser, data: st.DataObject) -> None:
    text = data.draw(st.text(CHARACTERS, max_size=60) | st.text() | st.binary())
    expect_data_or_problem(text, parser)


@PARSERS
@given(data=st.data())
def test_any_change_of_an_example_is_data_or_a_problem(parser: Parser, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([path.read_text()[:3000] for path in EXAMPLES]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        end = at + data.draw(st.integers(0, 5))
        text = text[:at] + data.draw(st.text(CHARACTERS, max_size=8)) + text[end:]
    expect_data_or_problem(text, parser)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.text("aé1-:.#'\"\n ~e+_[{*&"),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("ab1-: '\n", max_size=5), inner),
        max_leaves=20,
    )
)
def test_what_pyyaml_writes_is_read_back(value: object) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    assert read_yaml(text, "") == value


def test_every_limit_is_documented() -> None:
    said = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    for limit in (
        f"{MAX_BYTES >> 20} MiB",
        f"{yaml_text.MAX_DEPTH} deep",
        f"{yaml_text.MAX_NODES:,}",
    ):
        assert limit in said


# --- Whatever the files of people say, they are read or refused with a place, and used or not -----


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


# --- Amounts of memory as people write them into files --------------------------------------------


@pytest.mark.parametrize(
    ("written", "found"),
    [
        *((42949672960, 40 * 2**30), ("40Gi", 40 * 2**30), ("40GiB", 40 * 2**30)),
        *((" 40960 MiB ", 40 * 2**30), ("16GB", 16 * 10**9), ("1.5GiB", 3 * 2**29)),
        *(("17", 17), ("17B", 17), ("5kB", 5000), ("1e3", 1000), ("2Pi", 2**51)),
    ],
)
def test_memory_is_a_quantity_of_whole_bytes(written: int | str, found: int) -> None:
    assert memory_bytes(written) == found


@pytest.mark.parametrize(
    "written", ["", "GiB", "much", "4 0GiB", "40 Gi B", "40KB", "40BB", "500m", "1.5", "9" * 5000]
)
def test_anything_else_is_refused_in_a_short_sentence(written: str) -> None:
    with pytest.raises(ValueError, match="is not an amount of memory such as 40GiB") as refused:
        memory_bytes(written)
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize("written", [0, -1, "0GiB", "-5Gi"])
def test_a_card_has_some_memory(written: int | str) -> None:
    with pytest.raises(ValueError, match="is not more than 0 bytes"):
        memory_bytes(written)
