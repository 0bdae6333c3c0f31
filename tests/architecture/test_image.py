"""The image: what goes in, and as whom it runs. Nothing here can run a Dockerfile."""

import json
import re
from fnmatch import fnmatch

import yaml

from tests.architecture.sources import ROOT
from tests.controlplane.shipped import only

CHART = ROOT / "deploy/chart/kubeshare/Chart.yaml"
TEXT = re.sub(r"\\\n\s*", "", (ROOT / "deploy/Dockerfile").read_text())
LINES = [line.split(maxsplit=1) for line in TEXT.splitlines() if re.match(r"[A-Z]+ ", line)]
LAST = max(at for at, (name, _) in enumerate(LINES) if name == "FROM")
BUILD, RUN = LINES[:LAST], LINES[LAST:]


def all_of(stage: list[list[str]], instruction: str) -> list[str]:
    return [rest for name, rest in stage if name == instruction]


def sent(path: str) -> bool:
    """Whether .dockerignore lets a path through: the last line about it or above it decides."""
    found, parts = True, path.split("/")
    for line in (ROOT / ".dockerignore").read_text().split("\n"):
        pattern = line.removeprefix("!").split("/")
        about = zip(parts, pattern, strict=False)
        if len(pattern) <= len(parts) and all(fnmatch(one, like) for one, like in about):
            found = line.startswith("!") if line and not line.startswith("#") else found
    return found


def test_the_builder_gets_what_it_copies_and_nothing_else() -> None:
    copied = {part for one in all_of(BUILD, "COPY") for part in one.split()[:-1]}
    assert all((ROOT / one).exists() for one in copied)
    tops = {path.name for path in ROOT.iterdir() if sent(path.name)}
    assert tops == {one.split("/")[0] for one in copied}
    below = (path.relative_to(ROOT).as_posix() for path in (ROOT / "deploy").rglob("*"))
    assert {one for one in below if sent(one)} == {one for one in copied if "/" in one} | {
        "deploy/release"
    }


def test_what_the_wheel_is_made_from_is_copied() -> None:
    packaged = (ROOT / "pyproject.toml").read_text()
    [listed] = re.findall(r"^packages = \[(.*)\]$", packaged, re.MULTILINE)
    tops = {one.split("/")[0] for one in re.findall(r'"(.+?)"', listed)}
    copied = {part for one in all_of(BUILD, "COPY") for part in one.split()[:-1]}
    others = {"pyproject.toml", "README.md", "LICENSE", "config"}
    assert tops | others == {one for one in copied if "/" not in one}


def test_nothing_is_run_or_added_where_there_is_no_shell() -> None:
    assert {name for name, _ in RUN} == {
        "FROM", "COPY", "ENV", "USER", "WORKDIR", "EXPOSE", "ENTRYPOINT"
    }  # fmt: skip
    assert all_of(RUN, "COPY") == ["--from=build /app /app"]


def test_it_starts_the_scheduler_as_the_user_that_the_pods_ask_for() -> None:
    [entry] = all_of(RUN, "ENTRYPOINT")
    assert json.loads(entry) == ["/usr/bin/python3", "-m", "kubeshare_cmd.scheduler"]
    security = only("Deployment", "kubeshare-scheduler")["spec"]["template"]["spec"]
    user, group = (security["securityContext"][key] for key in ("runAsUser", "runAsGroup"))
    assert all_of(RUN, "USER") == [f"{user}:{group}"]
    assert ":nonroot@" in all_of(RUN, "FROM")[0]


def test_builder_and_runtime_have_the_python_that_is_the_oldest_supported() -> None:
    [builder] = all_of(BUILD, "FROM")
    assert re.match(r"python:3\.11-slim-bookworm\b", builder)
    assert all_of(RUN, "FROM")[0].startswith("gcr.io/distroless/python3-debian12:")
    assert 'requires-python = ">=3.11.2"' in (ROOT / "pyproject.toml").read_text()


def test_the_chart_asks_for_the_version_that_is_packaged() -> None:
    [version] = re.findall(
        r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert yaml.safe_load(CHART.read_text())["appVersion"] == version
    [container] = only("Deployment", "kubeshare-scheduler")["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["image"] == f"kubeshare-scheduler:{version}"
