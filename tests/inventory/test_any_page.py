"""Whatever a collector's page says, it is read, and what is wrong with it is said."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.inventory.changes import next_reading
from kubeshare_py.inventory.collector_page import Remark, read_page, wiring_of_page, wirings
from kubeshare_py.inventory.sample_merge import Reading
from tests.inventory.joined_cards import joined_cards
from tests.inventory.vector import A
from tests.odd_input import TEXTS

PAGE = joined_cards(A)
ODD = st.one_of(TEXTS, st.text('{}",=\n\\ #0123456789.eE+-NaInf_', max_size=8))


@given(st.data(), st.booleans())
def test_any_page_is_read(data: st.DataObject, has_end: bool) -> None:
    text = PAGE
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        end = at + data.draw(st.integers(0, 40))
        text = text[:at] + data.draw(ODD) + text[end:]
    page = read_page(text, A, "10.0.0.1:9004", has_end=has_end, with_uses=True)
    assert all(0 <= (one.busy_milli or 0) <= 1000 for one in page.uses)
    step = next_reading(Reading(), page.vector, 0.0, unix_now=100.0)
    remarks: list[Remark] = []
    wirings(wiring_of_page(page.wiring), step.reading.cards, remarks.append)
    assert all(str(one) for one in (*page.diagnostics, *step.diagnostics, *remarks))
