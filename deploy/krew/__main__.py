"""Make what krew installs: python -m deploy.krew VERSION --url URL --wheel FILE --output DIR.

VERSION is that of the release, URL is where its files will be, FILE the wheel of kubectl-kubeshare.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from deploy.krew.archives import PLATFORMS, CannotDownload, folder_of
from deploy.krew.manifest import archive_name, manifest
from deploy.release import archive

#: Of files in the archives: a fixed time, so that the same files are the same bytes.
EPOCH = 1_700_000_000
DONE, FAILED = 0, 1


def main() -> int:
    """Parse, build an archive for each platform, write the manifest."""
    parser = argparse.ArgumentParser(prog="python -m deploy.krew", description=__doc__)
    parser.add_argument("version", metavar="VERSION", help="as 1.2.3")
    parser.add_argument("--url", required=True, help="https://… where the archives will be")
    parser.add_argument("--wheel", type=Path, required=True, metavar="FILE")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    sums = {}
    for platform in PLATFORMS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                folder_of(given.wheel, platform, Path(folder))
            except CannotDownload as error:
                print(error, file=sys.stderr)
                return FAILED
            content = archive.gzipped(archive.tar_of(Path(folder), epoch=EPOCH))
        (given.output / archive_name(given.version, platform)).write_bytes(content)
        sums[platform] = archive.sha256(content)
    text = manifest(given.version, given.url, sums)
    (given.output / "kubeshare.yaml").write_text(text)
    return DONE


if __name__ == "__main__":
    sys.exit(main())
