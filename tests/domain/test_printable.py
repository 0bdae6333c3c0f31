import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.printable import printable


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
