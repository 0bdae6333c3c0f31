import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.printable import beginning, listed, printable
from kubeshare_py.domain.request import InvalidRequest


@given(st.text())
def test_no_control_character_is_left_and_nothing_else_changes(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    for before, after in zip(text, shown, strict=True):
        # Other spaces are shown as "?" as well.
        steers = unicodedata.category(before) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        assert after == "?" if steers else after in (before, "?")


def test_escape_sequences_and_lines_do_not_get_through() -> None:
    assert printable("a\x1b[31mb\x9b2Jc\nd\u202ee\x7f") == "a?[31mb?2Jc?d?e?"
    assert printable("Größe 三 ✓ 50 %") == "Größe 三 ✓ 50 %"


def test_of_a_long_text_the_beginning_is_repeated() -> None:
    assert beginning("abc", 3) == "abc"
    assert beginning("abcd", 3) == "abc…"


def test_of_many_names_the_first_are_listed_and_the_others_counted() -> None:
    assert listed(["a", "b"]) == "a, b"
    names = [f"n{number}" for number in range(20)]
    assert listed(names).endswith(", n15 and 4 more")
    assert len(listed(["x" * 10_000] * 1000)) < 4000


def test_what_is_wrong_with_a_request_is_said_in_a_sentence_however_long_its_parts_are() -> None:
    short = InvalidRequest(field="f", value="v" * 128, rule="is not known")
    assert str(short) == f'f="{"v" * 128}": is not known'
    long = InvalidRequest(field="f" * 10_000, value="v" * 10_000, rule="r" * 10_000)
    assert len(str(long)) < 2000
    assert str(long).startswith("fff")
