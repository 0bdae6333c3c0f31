"""What krew installs: a manifest by its rules, and an archive that runs where it is unpacked."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deploy.krew.archives import COMMANDS, PLATFORMS, assemble
from deploy.krew.manifest import archive_name, manifest
from deploy.release import archive
from tests.architecture.sources import ROOT
from tests.architecture.test_command_alone import copy_distribution, dependencies
from tests.architecture.test_packaging import run

SUMS = {platform: f"{number}" * 64 for number, platform in enumerate(PLATFORMS)}
URL = "https://example.com/releases"


def test_the_manifest_keeps_krews_rules() -> None:
    """https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/ and its index' checks."""
    found = yaml.safe_load(manifest("1.2.3", f"{URL}/", SUMS))
    assert found["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert (found["kind"], found["metadata"]) == ("Plugin", {"name": "kubeshare"})
    spec = found["spec"]
    assert set(spec) == {
        *("version", "homepage", "shortDescription", "description", "caveats", "platforms")
    }
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert len(spec["shortDescription"]) <= 50
    assert not spec["shortDescription"].endswith(".")
    assert "kubectl" not in spec["shortDescription"]
    seen = {}
    for one in spec["platforms"]:
        assert set(one) == {"selector", "uri", "sha256", "bin"}
        labels = one["selector"]["matchLabels"]
        platform = f"{labels['os']}-{labels['arch']}"
        assert one["uri"] == f"{URL}/{archive_name('1.2.3', platform)}"
        assert one["bin"] in COMMANDS
        seen[platform] = one["sha256"]
    assert seen == SUMS


def test_a_platform_that_was_not_built_is_not_forgotten() -> None:
    with pytest.raises(KeyError, match="darwin_arm64"):
        manifest("1.2.3", URL, {name: one for name, one in SUMS.items() if name != "darwin-arm64"})


@pytest.mark.slow
def test_the_archive_runs_through_the_link_that_krew_makes(tmp_path: Path) -> None:
    folder = ROOT / "deploy/kubectl-kubeshare"
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, folder)
    (wheel,) = tmp_path.glob("*.whl")
    packages, made, store = (tmp_path / name for name in ("packages", "made", "store"))
    run(*(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
        *("--target", packages, wheel))  # fmt: skip
    for name in dependencies("kubectl-kubeshare", packages):
        copy_distribution(name, packages)
    assemble(wheel, [packages], made)
    store.mkdir()
    subprocess.run(["tar", "-xC", store], check=True, input=archive.tar_of(made, epoch=1))
    for command, said in (("kubectl-kubeshare", "usage: "), ("kubectl_complete-kubeshare", ":4")):
        link = tmp_path / f"linked-{command}"
        link.symlink_to(store / command)
        arguments = ["--help"] if "complete" not in command else [""]
        done = subprocess.run(
            [sys.executable, "-I", link, *arguments], check=True, capture_output=True, text=True
        )
        assert said in done.stdout
