"""Checks that files which are loaded as code can only have been written by this user."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_MAX_BYTES = 1 << 30  # limit of a file


def why_untrusted_folder(path: Path) -> str | None:
    """Return why another user could change the contents of a folder, or None if none can.

    Every component of the path is checked, and those of symbolic links on it. If the result is None, only the
    owner can change which file a path below the folder refers to.
    """
    if path.is_symlink():
        return f"{path} is a symbolic link"
    left = list(reversed(Path(os.path.abspath(path)).parts))
    current = Path(left.pop())
    links = 0
    while True:
        about = os.lstat(current)
        if about.st_uid not in (0, os.geteuid()):
            return f"{current} belongs to user {about.st_uid}"
        if stat.S_ISLNK(about.st_mode):
            links += 1
            if links > 40:
                return f"{current} is one of too many symbolic links"
            target = Path(os.readlink(current))
            left += reversed(target.parts)
            current = Path(left.pop()) if target.is_absolute() else current.parent
        elif not stat.S_ISDIR(about.st_mode):
            return f"{current} is not a folder"
        elif _is_writable_by_others(about, is_last=not left):
            return f"others may write to {current} (chmod go-w {current})"
        if not left:
            return None if about.st_uid == os.geteuid() else f"{current} belongs to user {about.st_uid}"
        part = left.pop()
        current = current.parent if part == ".." else current / part


def _is_writable_by_others(about: os.stat_result, *, is_last: bool) -> bool:
    if is_last:
        return bool(about.st_mode & 0o022)
    if about.st_mode & stat.S_ISVTX:  # sticky: others cannot rename our files
        return False
    return bool(about.st_mode & 0o002) or (
        bool(about.st_mode & 0o020) and not _is_private_group(about.st_gid)
    )


def _is_private_group(group: int) -> bool:
    """Return True if a group has this user only, as the default group of a user on many systems."""
    import grp  # noqa: PLC0415  (takes time, and is seldom needed)
    import pwd  # noqa: PLC0415

    try:
        entry, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return entry.gr_name == user.pw_name and set(entry.gr_mem) <= {user.pw_name}


class UntrustedFile(OSError):
    """Another user may have written a file."""


def content(path: Path) -> bytes:
    """Read a file that only this user can write; the check is on the open file, so there is no race.

    Raises
    ------
    UntrustedFile
        The file belongs to another user, or others may write to it.
    OSError
        The file does not exist, or is not a regular file.
    """
    handle = os.open(
        path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    )  # O_NONBLOCK: a FIFO would block
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_size > _MAX_BYTES:
            raise OSError(f"{path} is not a plain file")
        if about.st_uid != os.geteuid():
            raise UntrustedFile(f"{path} belongs to user {about.st_uid}")
        if about.st_mode & 0o022:
            raise UntrustedFile(f"others may write to {path}")
        return file.read()


def runs_code(folder: Path) -> bool:
    """Return True if libraries in a folder can be loaded: the file system may be mounted with noexec."""
    try:
        return not os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0)
    except OSError:
        return False
