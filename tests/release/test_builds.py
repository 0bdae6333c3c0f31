"""The pieces of a release that can be built anywhere, and that they depend on nothing else."""

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.release import archive, bill, build, debian, development, image, python_packages
from tests.architecture.sources import ROOT

COMMAND = "kubectl_kubeshare"
EPOCH = 1_790_000_000
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
PYTHON_LOCKS = ("requirements.lock", "build.lock", "development.lock", "demo.lock")


def some_files(folder: Path, *, order: tuple[str, ...], umask: int) -> Path:
    folder.mkdir()
    (folder / "sub").mkdir()
    for name in order:
        (folder / name).write_text(f"in {name}")
        (folder / name).chmod(0o666 & ~umask)
    (folder / "sub/run").write_text("#!/bin/sh")
    (folder / "sub/run").chmod(0o777 & ~umask)
    (folder / "link").symlink_to("sub/run")
    return folder


def test_an_archive_depends_on_nothing_but_its_files(tmp_path: Path) -> None:
    first = some_files(tmp_path / "one", order=("a", "b"), umask=0o022)
    second = some_files(tmp_path / "two", order=("b", "a"), umask=0o077)
    os.utime(second / "a", (1, 1))
    made = archive.tar_of(first, epoch=EPOCH, under="app/")
    assert made == archive.tar_of(second, epoch=EPOCH, under="app/")
    assert archive.gzipped(made) == archive.gzipped(made)
    with tarfile.open(fileobj=io.BytesIO(made)) as read:
        found = {one.name: one for one in read}
    assert sorted(found) == ["app/a", "app/b", "app/link", "app/sub", "app/sub/run"]
    assert {(one.uid, one.gid, one.mtime) for one in found.values()} == {(0, 0, EPOCH)}
    assert found["app/sub/run"].mode == 0o755
    assert found["app/a"].mode == 0o644


def test_the_image_runs_what_the_dockerfile_says() -> None:
    settings = image.settings_of(DOCKERFILE)
    assert settings.user == "65532:65532"
    assert settings.entrypoint == ["/usr/bin/python3", "-m", "kubeshare_cmd.scheduler"]
    assert settings.environment[:2] == ["PYTHONPATH=/app", "PYTHONSAFEPATH=1"]
    assert settings.ports == ["10259"]


def test_a_layout_leads_from_its_index_to_every_blob(tmp_path: Path) -> None:
    folders = {name: some_files(tmp_path / name, order=("a",), umask=0) for name in ("root", "app")}
    layers = [(name, archive.tar_of(one, epoch=EPOCH)) for name, one in folders.items()]
    folder = tmp_path / "layout"
    folder.mkdir()
    image.write_layout(layers, image.settings_of(DOCKERFILE), folder, version="9.8.7", epoch=EPOCH)

    def blob(described: dict[str, object]) -> bytes:
        content = (folder / "blobs" / str(described["digest"]).replace(":", "/")).read_bytes()
        assert len(content) == described["size"]
        assert f"sha256:{hashlib.sha256(content).hexdigest()}" == described["digest"]
        return content

    [only] = json.loads((folder / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(only))
    config = json.loads(blob(manifest["config"]))
    unpacked = [gzip.decompress(blob(one)) for one in manifest["layers"]]
    assert unpacked == [tar for _, tar in layers]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{archive.sha256(one)}" for one in unpacked]
    assert config["config"]["User"] == "65532:65532"
    assert only["annotations"] == {"org.opencontainers.image.ref.name": "9.8.7"}


def test_the_index_leads_to_the_chart_wherever_it_is_served() -> None:
    described = (ROOT / build.CHART / "Chart.yaml").read_text()
    index = yaml.safe_load(build.chart_index(described, b"packed", EPOCH))
    chart = yaml.safe_load(described)
    [entry] = index["entries"]["kubeshare"]
    assert entry.items() > chart.items()
    assert entry["urls"] == [f"kubeshare-{chart['version']}.tgz"]
    assert entry["digest"] == hashlib.sha256(b"packed").hexdigest()
    assert (index["apiVersion"], entry["created"]) == ("v1", "2026-09-21T14:13:20Z")


def test_the_pages_name_the_files_that_a_release_has() -> None:
    """Which files it has is read where they are written, those of `python -m build` aside."""
    written = set(re.findall(r'output / f"([^"]+)"', Path(build.__file__).read_text()))
    wheels = {f"{name}-{{version}}-py3-none-any.whl" for name in ("kubeshare_py", COMMAND)}
    names = {one.replace("{version}", "VERSION") for one in written | wheels}
    names |= {"index.yaml", "SHA256SUMS", "kubeshare_py-VERSION.tar.gz"}
    table = (ROOT / "docs/developers/releasing.md").read_text()
    assert set(re.findall(r"`([\w.-]+)`", "".join(re.findall(r"(?m)^(\|.*?\|)", table)))) >= names
    _, _, part = (ROOT / "docs/install.md").read_text().partition("## From the files of a release")
    used = re.findall(r"(?<![/\w])[\w./:-]*\$VERSION[\w.-]+|SHA256SUMS|index\.yaml", part)
    found = {
        one.replace("$VERSION", "VERSION").rpartition(":")[2].removeprefix("./") for one in used
    }
    assert len(found) == 6
    assert found <= names


def test_every_package_of_debian_is_pinned_to_one_file() -> None:
    packages = debian.pinned(debian.LOCK.read_text())
    names = [one.name for one in packages]
    assert names == sorted({*names})
    assert all(re.fullmatch(r"[0-9a-f]{64}", one.digest) for one in packages)
    assert not {"bash", "dash", "busybox", "dpkg", "apt", "coreutils", "perl-base"} & {*names}


def test_the_lock_has_all_that_we_depend_on() -> None:
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", python_packages.LOCK.read_text(), re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(one) for one in project["dependencies"]]
    assert {one.name for one in wanted} <= {*pins}
    assert [one.name for one in wanted if pins[one.name] not in one.specifier] == []


@pytest.mark.parametrize(
    "lock",
    [python_packages.LOCK, python_packages.BUILD_LOCK, development.LOCK, development.DEMO_LOCK],
    ids=lambda p: p.name,
)
def test_every_pinned_package_of_python_has_hashes_and_names_no_index(lock: str) -> None:
    text = (ROOT / "deploy/release" / lock).read_text()
    pins = re.sub(r" \\\n", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    pin = r"[a-z0-9-]+==\S+( ; [^\n]+?)?(    --hash=sha256:[0-9a-f]{64})+"
    assert [line for line in pins.splitlines() if not re.fullmatch(pin, line)] == []


def test_the_development_lock_is_for_the_dependencies_that_are_named() -> None:
    project = development.PROJECT.read_text()
    lock = development.LOCK.read_text()
    assert development.is_current(lock, project), "out of date: make lock"
    pins = re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE)
    groups = tomllib.loads(project)["dependency-groups"]
    named = [*groups["dev"], *groups["release"]]
    wanted = [Requirement(one) for one in named if isinstance(one, str)]
    for one in (*wanted, *map(Requirement, tomllib.loads(project)["project"]["dependencies"])):
        versions = [version for name, version in pins if name == canonicalize_name(one.name)]
        assert versions
        assert all(version in one.specifier for version in versions), one


@pytest.mark.parametrize(
    "change",
    [
        ("aiohttp>=3.14", "aiohttp>=3.15"),
        ("pytest>=8.4", "pytest>=9"),
        ('requires-python = ">=3.11.2"', 'requires-python = ">=3.12"'),
        ('requires = ["hatchling>=1.27"]', 'requires = ["hatchling>=2"]'),
    ],
)
def test_the_development_lock_is_not_for_other_dependencies(change: tuple[str, str]) -> None:
    project, lock = development.PROJECT.read_text(), development.LOCK.read_text()
    assert change[0] in project
    assert not development.is_current(lock, project.replace(*change))
    assert development.is_current(lock, project + "\n[tool.other]\nname = 1\n")


DIGEST = f"sha256:{'0' * 64}"


def test_every_base_of_the_dockerfile_is_named_by_its_digest() -> None:
    image.check_bases(DOCKERFILE)
    named = re.sub(r"\$\{[A-Z_]+\}", DIGEST, DOCKERFILE)
    assert named.count(f"@{DIGEST}") == 2
    image.check_bases(named)


@pytest.mark.parametrize(
    "dockerfile",
    [
        "FROM python:3.11-slim",
        "FROM python",
        f"FROM python:3.11@{DIGEST} AS build\nFROM gcr.io/distroless/python3-debian12:nonroot",
        "FROM --platform=linux/amd64 python:3.11",
        "ARG BASE=python:3.11\nFROM ${BASE}",
        "ARG BASE\nFROM ${BASE}",
        f"ARG DIGEST={DIGEST[:-1]}\nFROM python@${{DIGEST}}",
        "FROM python@${DIGEST}",
        "from python:3.11@sha256:abc",
    ],
)
def test_a_base_that_is_named_by_a_tag_is_refused(dockerfile: str) -> None:
    with pytest.raises(image.Unpinned, match=r"^FROM .*: name the base by its digest, .*@sha256:…"):
        image.check_bases(dockerfile)


def test_no_release_is_built_from_a_base_that_is_named_by_a_tag(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / build.DOCKERFILE).write_text("FROM python:3.11\n")
    with pytest.raises(image.Unpinned):
        build.build(tmp_path, tmp_path, tmp_path, version="1", epoch=EPOCH, downloads=tmp_path)


def test_the_bill_and_the_licences_name_what_is_in_the_root(tmp_path: Path) -> None:
    about = tmp_path / "app/thing-1.0.dist-info"
    (about / "licenses").mkdir(parents=True)
    (about / "METADATA").write_text("Name: thing\nVersion: 1.0\nLicense-Expression: MIT\n\nLong.")
    (about / "licenses/LICENSE").write_text("Do what you like.")
    described = tmp_path / "var/lib/dpkg/status.d"
    described.mkdir(parents=True)
    (described / "libthing").write_text("Package: libthing\nVersion: 1:2.0-3\n")
    parts = bill.parts_of(tmp_path)
    found = json.loads(bill.bill(parts, "9.8.7", EPOCH))
    assert bill.bill(parts, "9.8.7", EPOCH) == bill.bill(parts, "9.8.7", EPOCH)
    assert [one["purl"] for one in found["components"]] == [
        "pkg:deb/debian/libthing@1:2.0-3",
        "pkg:pypi/thing@1.0",
    ]
    page = bill.licences(parts, tmp_path)
    assert "thing 1.0 (Python): MIT\n\nDo what you like." in page
    assert "libthing 1:2.0-3 (Debian): see below\n\nIt ships no text of it." in page


@pytest.mark.long
def test_wheels_and_sdist_are_the_same_when_they_are_built_again(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        source, output = tmp_path / name, tmp_path / f"{name}-built"
        build.export(ROOT, source)
        build.build_python(source, output, EPOCH)
        made.append({one.name: archive.sha256(one.read_bytes()) for one in output.iterdir()})
    assert made[0] == made[1]
    assert sorted(re.sub(r"-\d.*?(\.tar|-py3)", r"\1", name) for name in made[0]) == [
        "kubectl_kubeshare-py3-none-any.whl",
        "kubeshare_py-py3-none-any.whl",
        "kubeshare_py.tar.gz",
    ]
