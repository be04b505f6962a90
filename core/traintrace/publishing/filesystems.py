"""Which paths lie on a file system that other machines share; a live SQLite file must not lie on one.

SQLite's write-ahead log needs shared memory, and its locks need a file system that keeps them: network
file systems have neither, and lose or damage databases.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_MOUNTS: Final = Path("/proc/self/mountinfo")

# Types by the names that the kernel lists them under.
_NETWORK: Final = frozenset(
    {
        *("nfs", "nfs3", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "afs", "coda"),
        *(
            "lustre",
            "gpfs",
            "mmfs",
            "beegfs",
            "fhgfs",
            "ceph",
            "panfs",
            "pvfs2",
            "orangefs",
            "wekafs",
        ),
        *("gfs", "gfs2", "ocfs2", "glusterfs", "quobyte", "vastfs", "dvs", "daos", "gfarm", "acfs"),
        # Folders that a virtual machine shares with its host.
        *("9p", "virtiofs", "vboxsf", "prl_fs", "vmhgfs", "davfs", "davfs2"),
    }
)
# What runs in user space says itself what it is. These keep their files on this machine; of any other
# nobody knows, and a run that is published needlessly loses nothing.
_LOCAL_FUSE: Final = frozenset(
    {
        *(
            "fuseblk",
            "fuse.ntfs",
            "fuse.ntfs-3g",
            "fuse.exfat",
            "fuse.lxcfs",
            "fuse.fuse-overlayfs",
        ),
        *(
            "fuse.bindfs",
            "fuse.mergerfs",
            "fuse.unionfs",
            "fuse.gocryptfs",
            "fuse.encfs",
            "fuse.apfs",
        ),
    }
)
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """One line of the kernel's list of mounts.

    Attributes:
        point: Where it is mounted.
        kind: Type of the file system.
    """

    point: str
    kind: str


def network_file_system(path: str | Path, mounts: str | None = None) -> str | None:
    """Give the type of the network file system that `path` lies on; None if it is local or nobody knows.

    Args:
        path: A path; it need not exist yet. Links are followed as far as it does.
        mounts: What `/proc/self/mountinfo` says; None reads it.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text("utf-8", errors="surrogateescape")
        except OSError:
            return None  # no Linux: nothing is known
    try:
        place = Path(path).resolve()
    except (OSError, RuntimeError):
        place = Path(path).absolute()
    kind = _kind_of(str(place), list(_parse(mounts)))
    return kind if kind is not None and _is_shared(kind) else None


def _kind_of(path: str, mounts: list[Mount]) -> str | None:
    """Give the type of the mount that holds `path`: the deepest, and of two at one point the later."""
    best: Mount | None = None
    for mount in mounts:
        inside = mount.point == "/" or path == mount.point or path.startswith(f"{mount.point}/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return None if best is None else best.kind


def _is_shared(kind: str) -> bool:
    return kind in _NETWORK or (kind.startswith("fuse") and kind not in _LOCAL_FUSE)


def _parse(text: str) -> Iterator[Mount]:
    """Read mountinfo: `id parent major:minor root point options [tags] - type source options`."""
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if separator and len(fields) >= 6 and rest[0]:
            yield Mount(_unescape(fields[4]), rest[0])


def _unescape(text: str) -> str:
    """Undo the kernel's octal escapes of blanks, tabs, line ends and backslashes."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
