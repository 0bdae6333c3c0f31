"""Cutting a release: texts in, texts out."""

import pytest

from deploy.release import cut
from tests.architecture.sources import ROOT

LOG = (
    "# Changelog\n\n## Unreleased\n\n### Added\n\n- A thing.\n\n## 0.1.0 - 2026-01-01\n\n- First.\n"
)


def texts(**changed: str) -> dict[str, str]:
    found = {name: (ROOT / name).read_text(encoding="utf-8") for name in cut.FILES}
    return {**found, cut.CHANGELOG: LOG, **changed}


def test_what_was_unreleased_becomes_the_sections_of_that_day() -> None:
    done = cut.cut(texts(), "9.8.7", "2026-11-22")[cut.CHANGELOG]
    assert done.startswith("# Changelog\n\n## Unreleased\n\n## 9.8.7 - 2026-11-22\n\n### Added\n")
    assert cut.day_of(done, "9.8.7") == "2026-11-22"
    assert cut.notes(done, "9.8.7") == "### Added\n\n- A thing.\n"
    assert cut.notes(done, "0.1.0") == "- First.\n"


def test_the_version_is_set_wherever_it_is_written() -> None:
    old = cut.version_of(texts()[cut.PROJECT])
    done = cut.cut(texts(), "9.8.7", "2026-11-22")
    assert cut.version_of(done[cut.PROJECT]) == "9.8.7"
    assert "version: 9.8.7" in done[cut.CHART]
    assert "appVersion: 9.8.7" in done[cut.CHART]
    for name in cut.NAMING:
        assert "kubeshare-scheduler:9.8.7" in done[name]
        assert f"kubeshare-scheduler:{old}" not in done[name]
    assert f'version: "{old}"' not in done["deploy/kubeshare.yaml"]


def test_cutting_twice_changes_nothing() -> None:
    once = cut.cut(texts(), "9.8.7", "2026-11-22")
    assert cut.cut(once, "9.8.7", "2026-11-23") == once


@pytest.mark.parametrize(
    ("version", "changelog", "says"),
    [
        ("v1.2", LOG, "VERSION=v1.2 is not like 1.2.3"),
        ("01.2.3", LOG, "VERSION=01.2.3"),
        ("1.2.3", "# Changelog\n", 'no section "## Unreleased"'),
        ("1.2.3", LOG.replace("- A thing.\n", ""), "no entries"),
    ],
)
def test_what_cannot_be_released_is_said(version: str, changelog: str, says: str) -> None:
    with pytest.raises(cut.CannotCut, match=says):
        cut.cut(texts(**{cut.CHANGELOG: changelog}), version, "2026-11-22")
