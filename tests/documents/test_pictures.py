"""The pictures show what today's demo shows."""

from pathlib import Path

import pytest

from tests.documents.pictures import pictures, words


@pytest.mark.slow
async def test_the_pictures_are_those_of_today(tmp_path: Path) -> None:
    drawn = await pictures(tmp_path)
    assert len(drawn) == 2
    for path, svg in drawn.items():
        assert words(path.read_text()) == words(svg), "python -m tests.documents.pictures"
        assert {"waits", "waiting"} & words(svg)
        assert len(words(svg)) > 10
