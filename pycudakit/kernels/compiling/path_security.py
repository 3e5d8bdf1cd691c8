"""Whether nobody else can have written what is loaded as code."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_MAX_BYTES = 1 << 30  # bytes of a file


def why_untrusted_folder(path: Path) -> str | None:
    """Return why somebody else could change what a folder holds, or None if nobody could.

    Looks at every part of the way, and at those of symbolic links on it. Where this is None, a path below the
    folder names the same file from one look to the next, but for what its owner does.
    """
    if path.is_symlink():
        return f"{path} is a symbolic link"
    left = list(reversed(Path(os.path.abspath(path)).parts))
    here = Path(left.pop())
    links = 0
    while True:
        about = os.lstat(here)
        if about.st_uid not in (0, os.geteuid()):
            return f"{here} belongs to user {about.st_uid}"
        if stat.S_ISLNK(about.st_mode):
            links += 1
            if links > 40:
                return f"{here} is one of too many symbolic links"
            target = Path(os.readlink(here))
            left += reversed(target.parts)
            here = Path(left.pop()) if target.is_absolute() else here.parent
        elif not stat.S_ISDIR(about.st_mode):
            return f"{here} is not a folder"
        elif _is_writable_by_others(about, is_last=not left):
            return f"others may write to {here} (chmod go-w {here})"
        if not left:
            return None if about.st_uid == os.geteuid() else f"{here} belongs to user {about.st_uid}"
        part = left.pop()
        here = here.parent if part == ".." else here / part


def _is_writable_by_others(about: os.stat_result, *, is_last: bool) -> bool:
    if is_last:
        return bool(about.st_mode & 0o022)
    if about.st_mode & stat.S_ISVTX:  # others cannot rename what is ours
        return False
    return bool(about.st_mode & 0o002) or (
        bool(about.st_mode & 0o020) and not _is_private_group(about.st_gid)
    )


def _is_private_group(group: int) -> bool:
    """Tell whether a group is the user's alone, as each user has one by default on many systems."""
    import grp  # noqa: PLC0415  (takes time, and is seldom needed)
    import pwd  # noqa: PLC0415

    try:
        known, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return known.gr_name == user.pw_name and set(known.gr_mem) <= {user.pw_name}


class UntrustedFile(OSError):
    """Somebody else can have written a file."""


def content(path: Path) -> bytes:
    """Return what is in a file that is ours alone: what was looked at is what is read.

    Raises
    ------
    UntrustedFile
        It is another user's, or others may write to it.
    OSError
        There is none, or it is not a plain file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO would wait
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
    """Tell whether a library in a folder can be loaded: its file system may be mounted without."""
    try:
        return not os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0)
    except OSError:
        return False
