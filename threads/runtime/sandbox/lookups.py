"""The part of /etc that programs look up, apart from what else lies there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

ETC = Path("/etc")
# Nothing here holds a secret. The rest of /etc may: a worker's own settings, for one.
NAMES = (
    *("alternatives", "fonts", "group", "host.conf", "hosts", "java-11-openjdk"),
    *("java-17-openjdk", "java-21-openjdk", "ld.so.cache", "ld.so.conf"),
    *("ld.so.conf.d", "localtime", "magic", "mime.types", "networks"),
    *("nsswitch.conf", "os-release", "passwd", "perl", "pki/ca-trust"),
    *("pki/tls/certs", "profile", "protocols", "services", "shells", "ssl/certs"),
    *("ssl/openssl.cnf", "terminfo", "timezone"),
)


def copy() -> Path | None:
    """Return a folder with a copy, made once for each state of the machine.

    One folder to bind instead of thirty: a mount is most of what a sandbox costs.
    None where there is no place to keep it.
    """
    try:
        place = folder()
        if not place.exists():
            fill(place)
    except OSError:
        return None
    # Never bind what another user may have put there.
    return place if place.stat().st_uid == os.geteuid() else None


def folder() -> Path:
    if os.geteuid() == 0:
        base = Path("/var/cache/threadwork")  # commands run as other users
    else:
        base = Path.home() / ".cache" / "threadwork"
    base.mkdir(mode=0o755, parents=True, exist_ok=True)
    state = hashlib.sha256()
    for name in NAMES:
        with contextlib.suppress(OSError):
            found = (ETC / name).stat()
            state.update(f"{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return base / f"etc-{state.hexdigest()[:16]}"


def fill(place: Path) -> None:
    draft = Path(tempfile.mkdtemp(dir=place.parent))
    try:
        for name in NAMES:
            _copy(ETC / name, draft / name)
        # Where the machine's own lies over it, as it is at that moment.
        (draft / "resolv.conf").touch()
        draft.chmod(0o755)
        draft.rename(place)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not place.exists():  # else another worker was first
            raise


def _copy(source: Path, target: Path) -> None:
    if not source.exists():
        return
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if source.is_dir():
        with contextlib.suppress(shutil.Error):  # what cannot be read stays out
            shutil.copytree(source, target, symlinks=True)
    else:
        with contextlib.suppress(PermissionError):
            shutil.copy(source, target)
