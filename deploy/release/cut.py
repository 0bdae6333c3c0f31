"""Cut a release: the changelog's section and the version, everywhere it is written. Texts only."""

import re
from collections.abc import Mapping

CHANGELOG, PROJECT, CHART = "CHANGELOG.md", "pyproject.toml", "deploy/chart/kubeshare/Chart.yaml"
#: Files that name the image with its version; the manifests also carry the version as a label.
NAMING = ("deploy/Dockerfile", "deploy/kubeshare.yaml", "docs/install.md")
FILES = (CHANGELOG, PROJECT, CHART, *NAMING)

_UNRELEASED = "## Unreleased\n"
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")


class CannotCut(Exception):
    """The checkout is not one that this release can be made of. The text is one sentence."""


def version_of(project: str) -> str:
    """Return the version that pyproject.toml names. Raises CannotCut."""
    found = re.search(r'^version = "([^"]+)"$', project, re.MULTILINE)
    if found is None:
        raise CannotCut(f'{PROJECT} has no line version = "…"')
    return found[1]


def day_of(changelog: str, version: str) -> str | None:
    """Return the day (YYYY-MM-DD) of this version's section; None without such a section."""
    found = re.search(rf"^## {re.escape(version)} - (\d{{4}}-\d\d-\d\d)$", changelog, re.MULTILINE)
    return found and found[1]


def cut(texts: Mapping[str, str], version: str, day: str) -> dict[str, str]:
    """Return the texts of FILES for this version, released on `day` (YYYY-MM-DD).

    Where the section exists already and the version is set, nothing changes. Raises CannotCut for
    a version that is no semantic version, and where there is nothing to release.
    """
    if not _VERSION.fullmatch(version):
        raise CannotCut(f"VERSION={version} is not like 1.2.3 or 1.2.3-rc.1 (https://semver.org/)")
    old = version_of(texts[PROJECT])
    changed = dict(texts)
    if day_of(texts[CHANGELOG], version) is None:
        changed[CHANGELOG] = _with_section(texts[CHANGELOG], version, day)
    changed[PROJECT] = texts[PROJECT].replace(f'version = "{old}"', f'version = "{version}"', 1)
    changed[CHART] = re.sub(
        r"^(version|appVersion): \S+", rf"\1: {version}", texts[CHART], flags=re.MULTILINE
    )
    for name in NAMING:
        changed[name] = (
            texts[name]
            .replace(f"kubeshare-scheduler:{old}", f"kubeshare-scheduler:{version}")
            .replace(
                f'app.kubernetes.io/version: "{old}"', f'app.kubernetes.io/version: "{version}"'
            )
        )
    return changed


def notes(changelog: str, version: str) -> str:
    """Return the body of this version's section, as the release's notes."""
    _, _, after = changelog.partition(f"\n## {version} - ")
    body = after.partition("\n")[2].partition("\n## ")[0]
    return body.strip() + "\n"


def _with_section(changelog: str, version: str, day: str) -> str:
    before, head, after = changelog.partition(_UNRELEASED)
    body = after.partition("\n## ")[0]
    if not head:
        raise CannotCut(f'{CHANGELOG} has no section "{_UNRELEASED.strip()}"')
    if not re.search(r"^- ", body, re.MULTILINE):
        raise CannotCut(f'the section "Unreleased" of {CHANGELOG} has no entries to release')
    return f"{before}{head}\n## {version} - {day}\n{after}"
