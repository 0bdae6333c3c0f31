"""The image's root: packages of Debian at pinned versions, unpacked without a script being run.

`debian.lock` has a line for each: name, version, SHA-256 of the .deb file. Nothing else is in the
root: no shell, no package manager. Needs apt-get and dpkg-deb of Debian 12, and no privileges.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from deploy.release.archive import sha256

LOCK = Path(__file__).with_name("debian.lock")
#: Debian 12 has these as links into /usr (https://wiki.debian.org/UsrMerge).
_MERGED = ("bin", "sbin", "lib", "lib64")
#: What nobody reads in a container. Licences stay.
_LEFT_OUT = ("usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/bug")
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\n"
    "nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n",
    "etc/group": "root:x:0:\nnonroot:x:65532:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"


class Unavailable(Exception):
    """A package cannot be had as it is pinned. The text says what to do."""


@dataclass(frozen=True, slots=True)
class Package:
    """One .deb file. `digest`: its SHA-256."""

    name: str
    version: str
    digest: str


def pinned(text: str) -> list[Package]:
    """Read a lock's text: `NAME VERSION SHA256` a line; # begins a comment."""
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return [Package(*fields) for fields in lines if fields]


def current(names: list[str]) -> list[Package]:
    """Return what Debian has now, as apt knows it. Raises Unavailable."""
    shown = _run("apt-cache", "show", "--no-all-versions", *names)
    found: dict[str, Package] = {}
    for paragraph in shown.strip().split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in paragraph.splitlines()
            if ": " in line[1:] and line[0] > " "
        )
        name = fields["Package"]
        found[name] = Package(name, fields["Version"], fields["SHA256"])
    if missing := sorted({*names} - {*found}):
        raise Unavailable(f"apt knows no package {', '.join(missing)}: is this Debian 12?")
    return [found[name] for name in sorted(names)]


def download(packages: list[Package], folder: Path) -> dict[Package, Path]:
    """Fetch the .deb files and compare their digests. Raises Unavailable."""
    wanted = [f"{one.name}={one.version}" for one in packages]
    try:
        _run("apt-get", "download", "--quiet", *wanted, cwd=folder)
    except Unavailable as error:
        raise Unavailable(
            f"{error}\nDebian may have newer ones: `make release-lock` pins what it has today"
        ) from error
    by_digest = {sha256(path.read_bytes()): path for path in sorted(folder.glob("*.deb"))}
    for one in packages:
        if one.digest not in by_digest:
            raise Unavailable(f"{one.name} {one.version} is not the file that {LOCK.name} pins")
    return {one: by_digest[one.digest] for one in packages}


def unpack(files: dict[Package, Path], root: Path) -> None:
    """Make the root of them, with certificates, a user, Python's bytecode and a place for scanners.

    Bytecode is made here because nothing can be written where the image runs.
    """
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    described = root / "var/lib/dpkg/status.d"
    described.mkdir(parents=True)
    for package, file in files.items():
        _run("dpkg-deb", "--extract", str(file), str(root))
        (described / package.name).write_text(_run("dpkg-deb", "--field", str(file)))
    for folder in _LEFT_OUT:
        shutil.rmtree(root / folder, ignore_errors=True)
    authorities = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    for name, text in {**_FILES, AUTHORITIES: "".join(map(Path.read_text, authorities))}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "usr/bin/python3").symlink_to("python3.11")
    compile_below(root / "usr/lib/python3.11", root)


def compile_below(folder: Path, root: Path) -> None:
    """Compile what is below `folder` as it will be seen from `root`.

    The times of sources do not survive in an archive: bytecode is believed without a look at them.
    """
    options = ("-q", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/")
    command = [sys.executable, "-m", "compileall", *options, str(folder)]
    # Modules of tests have mistakes on purpose; the exit code says so.
    subprocess.run(command, check=False, env={"PYTHONHASHSEED": "0"}, stdout=subprocess.DEVNULL)


def _run(*command: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd)
    except FileNotFoundError as error:
        raise Unavailable(f"the image needs {command[0]}: build it on Debian 12") from error
    if done.returncode:
        raise Unavailable(f"{command[0]}: {done.stderr.strip()}")
    return done.stdout
