"""Under which account the servers run, and where their files can lie for it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SHELTER = Path("/var/lib/threadwork")
SOCKET_LIMIT = 103  # bytes of a Unix socket's path: 107 on Linux, 103 on a Mac
LINK = "files"


class ServerFailed(Exception):
    """An embedded server could not be started."""


@dataclass(frozen=True)
class Account:
    """Who runs the servers when root starts them: Postgres refuses root.

    Valkey runs under it too: it needs no right of root's either.
    """

    uid: int
    gid: int


@dataclass(frozen=True)
class Place:
    """Where one server keeps what it has; base is the folder it was asked for."""

    base: Path
    home: Path
    run: Path
    account: Account | None

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.base / "log"  # opened for the server, so it need not reach it

    def private(self, folder: Path) -> None:
        """Make the folder the account's alone."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.account:
            os.chown(folder, self.account.uid, self.account.gid)


@contextmanager
def locked(base: Path) -> Iterator[None]:
    """One starter at a time; the kernel lets go if it dies."""
    base.mkdir(parents=True, exist_ok=True)
    with (base / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def settle(base: Path, *, socket: str) -> Place:
    """Return where the server's files lie: in base, or where its account reaches.

    What is there decides: files once placed stay, and so does their owner.
    """
    link = base / LINK
    home = link.readlink() if link.is_symlink() else base
    account = choose_account(home / "data")
    if account:
        base.chmod(base.stat().st_mode | 0o011)  # the server's folder, nobody else's
    if home == base and account and not fits(base, socket, account):
        if (base / "data").exists():
            raise ServerFailed(
                f"The account that owns {base}/data cannot reach it: a folder above "
                "it is closed to others. Open the way or choose another --data."
            )
        home = shelter(base)
        account = choose_account(home / "data")
    open_to_others(home, account)
    return Place(base, home, sockets(base, home, socket), account)


def choose_account(data: Path) -> Account | None:
    if os.geteuid() != 0:
        return None
    with suppress(FileNotFoundError):
        if (owner := data.stat()).st_uid:
            return Account(owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_uid, entry.pw_gid)
    raise ServerFailed("Root cannot run Postgres, and there is no account for it.")


def fits(base: Path, socket: str, account: Account) -> bool:
    return short(base / "run" / socket) and reachable(base, account)


def short(path: Path) -> bool:
    return len(os.fsencode(path)) <= SOCKET_LIMIT


def reachable(path: Path, account: Account) -> bool:
    """Say whether the account may pass through every folder, and run a file."""
    for step in (path, *path.parents):
        entry = step.stat()
        if entry.st_uid == account.uid:
            needed = stat.S_IXUSR
        elif entry.st_gid == account.gid:
            needed = stat.S_IXGRP
        else:
            needed = stat.S_IXOTH
        if not entry.st_mode & needed:
            return False
    return True


def shelter(base: Path) -> Path:
    """Link base to a folder of its own below /var/lib, named by a hash."""
    target = SHELTER / digest(base.parent) / base.name
    if target.exists():
        # Its data folder was removed and made anew: that asked for a fresh start,
        # yet nothing here deletes data.
        target.rename(tempfile.mkdtemp(prefix=f"{base.name}.old-", dir=target.parent))
    (base / LINK).symlink_to(target)
    return target


def digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def open_to_others(home: Path, account: Account | None) -> None:
    """Let the account pass through the folders that are ours to open."""
    home.mkdir(parents=True, exist_ok=True)
    if account and home.is_relative_to(SHELTER):
        for folder in (home, *home.parents):
            if folder.is_relative_to(SHELTER):
                folder.chmod(0o711)


def sockets(base: Path, home: Path, socket: str) -> Path:
    """Return the folder of the server's socket, in home unless that is too deep."""
    run = home / "run"
    if short(run / socket):
        return run
    link = base / "sockets"
    if link.is_symlink() and owned(link.readlink()):
        return link.readlink()
    link.unlink(missing_ok=True)
    # An unguessable name, so that nobody else's folder can wait for us there.
    target = Path(tempfile.mkdtemp(prefix="threadwork-"))
    if not short(target / socket):
        raise ServerFailed(f"{run} is too deep for a socket; choose a shorter --data.")
    link.symlink_to(target)
    return target


def owned(folder: Path) -> bool:
    try:
        entry = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(entry.st_mode) and entry.st_uid == os.geteuid()


def programs(place: Place, *, site: Path, packages: list[str], probe: Path) -> Path:
    """Return the folder that holds the packages, copied where out of reach.

    The probe is a program in them. A copy made of hard links costs nothing.
    """
    if not place.account or reachable(probe, place.account):
        return site
    version = digest(probe) + f"-{int(probe.stat().st_mtime)}"
    kept = place.home / f"programs-{version}"
    if not kept.exists():
        for old in place.home.glob("programs-*"):
            shutil.rmtree(old)
        draft = place.home / f"programs-{version}.new"
        for package in packages:
            if (site / package).exists():
                share(site / package, draft / package)
        draft.chmod(0o755)
        draft.rename(kept)
    return kept


def share(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    target.chmod(0o755)
    for entry in source.iterdir():
        if entry.is_dir():
            share(entry, target / entry.name)
        else:
            share_file(entry, target / entry.name)


def share_file(source: Path, target: Path) -> None:
    mode = source.stat().st_mode
    if mode & stat.S_IROTH:
        with suppress(OSError):
            target.hardlink_to(source)
            return
    shutil.copyfile(source, target)
    target.chmod(0o755 if mode & stat.S_IXUSR else 0o644)
