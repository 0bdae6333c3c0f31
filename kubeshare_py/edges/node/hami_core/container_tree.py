"""Removes what a container left in its folder: of any depth, size and owner.

Nothing here recurses, follows a link, or holds more than two folders open. A folder that is not
empty is moved up to the top, where its own content is seen next, so that 100,000 folders in each
other cost as much as 100,000 beside each other, and what is left is where the next call finds it.

The agent has no capability: in a folder of another user that denies writing to others it can
neither remove nor move anything (path_resolution(7)). Such a folder stays.
"""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

#: O_NOFOLLOW: names are containers' own, and a link would lead out of the folder.
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Such a file needs no right to the folder, only to those above it: open(2).
_ITSELF = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN = 0o700


class Removal(msgspec.Struct):
    """The removals of one turn: at most `entries` files and folders are looked at.

    `problem` says what cannot be removed, "" if all could so far.
    """

    entries: int
    problem: str = ""

    def remove(self, folder: Path) -> bool:
        """Remove a folder; whether it is gone. Never raises for what containers made.

        If it is not gone and there is no problem, another turn goes on from there.
        """
        self.problem = ""
        try:
            file = _opened(str(folder), None)
            try:
                self._empty(file)
            finally:
                os.close(file)
            if self.entries > 0 and not self.problem:
                folder.rmdir()
                return True
        except FileNotFoundError:
            return True
        except OSError as error:
            self._stays(error)
        return False

    def _empty(self, top: int) -> None:
        """Go through the folder until all is gone, nothing more can be removed, or time is up."""
        progress = True
        while progress and self.entries > 0:
            progress = False
            with os.scandir(top) as entries:
                for entry in entries:
                    if self.entries <= 0:
                        return
                    progress |= self._take(top, entry.name, top)

    def _take(self, folder: int, name: str, top: int) -> bool:
        """Remove an entry, or move it to the top; whether anything has changed."""
        self.entries -= 1
        try:
            if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=folder)
                return True
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError:
                return self._take_folder(folder, name, top)
        except FileNotFoundError:
            return True
        except OSError as error:
            self._stays(error)
            return False
        return True

    def _take_folder(self, folder: int, name: str, top: int) -> bool:
        """Lift a folder to the top, or remove what is in one that is there. Raises OSError."""
        if folder != top:
            _writable(name, folder)
            os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=top)
            return True
        progress = False
        file = _opened(name, folder)
        try:
            with os.scandir(file) as entries:
                for entry in entries:
                    if self.entries <= 0:
                        return True
                    progress |= self._take(file, entry.name, top)
        finally:
            os.close(file)
        with suppress(OSError):
            os.rmdir(name, dir_fd=folder)
        return progress

    def _stays(self, error: OSError) -> None:
        # Without the name: it is the container's, of any bytes.
        self.problem = self.problem or (error.strerror or type(error).__name__)


def _opened(name: str, folder: int | None) -> int:
    """A folder, also one of ours whose mode forbids it. Raises OSError."""
    _writable(name, folder)
    return os.open(name, _FOLDER, dir_fd=folder)


def _writable(name: str, folder: int | None) -> None:
    """Give us the rights to a folder if it is ours: a container as root has the same owner.

    Raises OSError.
    """
    file = os.open(name, _ITSELF, dir_fd=folder)
    try:
        about = os.fstat(file)
        if about.st_uid == os.geteuid() and stat.S_IMODE(about.st_mode) & _OWN != _OWN:
            # fchmod refuses such a file, and chmod by its name could follow a link.
            os.chmod(f"/proc/self/fd/{file}", _OWN)
    finally:
        os.close(file)
