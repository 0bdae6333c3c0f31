"""Folders as archives that depend only on what is in them: order, times and owners are fixed."""

import gzip
import hashlib
import io
import tarfile
from pathlib import Path


def tar_of(folder: Path, *, epoch: int, under: str = "") -> bytes:
    """Return everything below `folder` as an uncompressed tar, its names below `under`.

    Times are `epoch` (s since 1970), owners root; of the modes only "executable" is kept, because
    the rest comes from the umask of the machine, but for folders that everyone may write to.
    """
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            info = archive.gettarinfo(path, under + str(path.relative_to(folder)))
            info.mtime, info.uid, info.gid, info.uname, info.gname = epoch, 0, 0, "", ""
            info.pax_headers = {}
            info.mode = _mode(info)
            # A second name of the same file would be a link to whichever comes first.
            if info.islnk():
                info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
            if info.isreg():
                with path.open("rb") as content:
                    archive.addfile(info, content)
            else:
                archive.addfile(info)
    return whole.getvalue()


def gzipped(content: bytes) -> bytes:
    """Return it compressed, without time and name."""
    return gzip.compress(content, compresslevel=9, mtime=0)


def sha256(content: bytes) -> str:
    """Return the digest in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def _mode(info: tarfile.TarInfo) -> int:
    if info.issym():
        return 0o777
    if info.isdir():
        return 0o1777 if info.mode & 0o1000 else 0o755
    return 0o755 if info.mode & 0o100 else 0o644
