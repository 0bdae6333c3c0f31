"""Make a release: python -m deploy.release VERSION (make release VERSION=x.y.z).

Cuts the changelog and sets the version in the working tree, builds everything twice, each time in a
new folder from what git tracks, and refuses to go on if any file differs.
"""

import argparse
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from deploy.release import cut
from deploy.release.build import SUMS, CannotBuild, build, export, sums
from deploy.release.debian import Unavailable
from deploy.release.image import Unpinned
from deploy.release.python_packages import CannotInstall

ROOT = Path(__file__).parents[2]
DONE, FAILED = 0, 1
_NEXT = """\
Next, after a look at `git diff` (docs/developers/releasing.md):
  git commit --all --message "release: cut {version}" && git tag --sign v{version}
  skopeo copy oci-archive:{folder}/kubeshare-scheduler-{version}-amd64.tar docker://REGISTRY/kubeshare-scheduler:{version}
  helm push {folder}/kubeshare-{version}.tgz oci://REGISTRY
  (or serve the folder: helm repo add kubeshare URL reads its index.yaml)
  twine upload {folder}/*.whl {folder}/*.tar.gz
"""


def main() -> int:
    """Parse, cut, build twice, compare, write sums and notes."""
    parser = argparse.ArgumentParser(
        prog="make release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  make release VERSION=1.2.3\n  make release VERSION=1.2.3-rc.1",
    )
    parser.add_argument("version", metavar="VERSION", help="as 1.2.3 or 1.2.3-rc.1")
    parser.add_argument("--output", type=Path, help="default: dist/VERSION")
    options = parser.parse_args()
    output = options.output or ROOT / "dist" / options.version
    try:
        release(ROOT, options.version, output)
    except (cut.CannotCut, CannotBuild, CannotInstall, Unavailable, Unpinned) as error:
        print(f"no release: {error}", file=sys.stderr)
        return FAILED
    print(_NEXT.format(version=options.version, folder=output))
    return DONE


def release(checkout: Path, version: str, output: Path) -> None:
    """Do it all; the day of the release is the time in archives, so that a tag builds alike."""
    if output.exists() and any(output.iterdir()):
        raise CannotBuild(f"{output} is not empty")
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    texts = {name: (checkout / name).read_text(encoding="utf-8") for name in cut.FILES}
    for name, text in cut.cut(texts, version, today).items():
        if text != texts[name]:
            (checkout / name).write_text(text, encoding="utf-8")
            print(f"cut: {name}")
    changelog = (checkout / cut.CHANGELOG).read_text(encoding="utf-8")
    day = datetime.strptime(f"{cut.day_of(changelog, version)}+0000", "%Y-%m-%d%z")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kubeshare-release-") as scratch:
        found = []
        for number, place in enumerate((output, Path(scratch) / "again"), start=1):
            print(f"build {number} of 2 …", flush=True)
            found.append(_one(checkout, Path(scratch), place, version, int(day.timestamp())))
    different = [name for name in found[0] if found[0][name] != found[1].get(name)]
    if different or found[0].keys() != found[1].keys():
        raise CannotBuild(f"two builds differ in {', '.join(different)}")
    lines = [f"{digest}  {name}\n" for name, digest in found[0].items()]
    (output / SUMS).write_text("".join(lines))
    for name in found[0]:
        print(f"{(output / name).stat().st_size / 2**20:8.2f} MiB  {name}")
    print("Both builds are equal. Notes of this release:\n")
    print(cut.notes(changelog, version))


def _one(checkout: Path, scratch: Path, output: Path, version: str, epoch: int) -> dict[str, str]:
    downloads = scratch / "downloads"
    downloads.mkdir(exist_ok=True)
    output.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        source, rest = Path(folder) / "source", Path(folder) / "rest"
        export(checkout, source)
        rest.mkdir()
        build(source, rest, output, version=version, epoch=epoch, downloads=downloads)
    return sums(output)


if __name__ == "__main__":
    sys.exit(main())
