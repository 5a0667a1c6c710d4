"""One machine's whole stack: servers, then migrations, then roles, all kept alive."""

from __future__ import annotations

import selectors
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from project.embedded import door, folder, leftovers, postgres, roles, valkey, wakeup
from project.embedded.child import Child
from project.embedded.keeper import Keeper
from project.embedded.log import Log

LOOK_SECONDS = 0.5
GRACE_SECONDS = 15.0  # roles drain; a second Ctrl-C cuts it short
SERVER_SECONDS = 20.0
SERVERS = (
    ("postgres", "DATABASE_URL", postgres),
    ("broker", "BROKER_URL", valkey),
)


class NotStarted(Exception):
    """Threadwork could not start."""


@dataclass(frozen=True)
class Options:
    folder: Path
    host: str
    port: int
    demo: bool
    quiet: bool


def run(options: Options) -> None:
    """Start everything on this folder and stay until told to stop.

    Raises FolderBusy, PortTaken or NotStarted, with nothing left running.
    """
    options.folder.mkdir(parents=True, exist_ok=True)
    with folder.held(options.folder):
        log = Log(sys.stdout, options.folder / "up.log", quiet=options.quiet)
        if count := leftovers.end(options.folder):
            log.say(f"Ended {count} processes of an `up` that was killed.")
        with door.bind(options.host, options.port) as bound:
            Stack(options, bound, log).live()


class Stack:
    """The processes of one `up`, and the loop that keeps them."""

    def __init__(self, options: Options, bound: socket.socket, log: Log) -> None:
        self.options = options
        self.bound = bound
        self.log = log
        self.url = door.address(bound)
        self.stops = 0  # how often somebody asked to stop
        self.selector = selectors.DefaultSelector()
        self.keepers: list[Keeper] = []
        self.children: list[Child] = []

    def live(self) -> None:
        with wakeup.signals(self.selector, self.ask_to_stop):
            try:
                self.start_servers()
                link = self.prepare()
                self.start_roles()
                self.announce(link)
                self.until(lambda: False)
            finally:
                self.close()

    def ask_to_stop(self) -> None:
        self.stops += 1

    def until(self, condition: Callable[[], bool], *, stops: int = 1) -> bool:
        """Keep everything alive until the condition holds; False when told to stop."""
        while not condition():
            if self.stops >= stops:
                return False
            self.turn()
        return True

    def turn(self) -> None:
        """Wait a moment for lines or signals, then look after every process."""
        for key, _ in self.selector.select(LOOK_SECONDS):
            if isinstance(key.data, Child):
                self.hear(key.data)
            else:
                key.data()
        for keeper in self.keepers:
            if happened := keeper.look():
                say = self.log.note if keeper.server else self.log.say
                say(happened)
                self.write()
        for child in self.children:
            self.look_after(child)

    def hear(self, child: Child) -> None:
        self.log.lines(child.name, child.lines())
        if child.silent:  # it closed its end, which would wake the selector for ever
            self.selector.unregister(child.output)

    def look_after(self, child: Child) -> None:
        if child.died():
            if not child.silent:
                self.selector.unregister(child.output)
            self.log.lines(child.name, child.last_lines())
            pause = child.put_off()
            if child.name in roles.NAMES and not self.stops:
                again = f"in {pause:.1f} s" if pause else "now"
                how = child.how_it_ended()
                self.log.say(f"{child.name} ended by {how}; it starts again {again}.")
        wanted = child.name in roles.NAMES and not self.stops
        if wanted and child.process is None and time.monotonic() >= child.due:
            self.start(child)
            self.write()

    def start(self, child: Child, *, stdout: int | None = None) -> None:
        child.start(stdout=stdout)
        self.selector.register(child.output, selectors.EVENT_READ, child)

    def start_servers(self) -> None:
        """Bring up the servers whose address the environment does not name."""
        for name, variable, server in SERVERS:
            if variable not in roles.external():
                keeper = Keeper(name, self.options.folder / name, server)
                self.keepers.append(keeper)
                keeper.begin()
        if not self.until(lambda: not any(map(Keeper.starting, self.keepers))):
            return
        for keeper in self.keepers:
            if keeper.server is None:
                raise NotStarted(f"{keeper.name} did not start: {keeper.trouble}")
            self.explain_place(keeper)

    def explain_place(self, keeper: Keeper) -> None:
        if keeper.server and keeper.server.place.home != keeper.base:
            self.log.say(
                f"The files of {keeper.name} lie in {keeper.server.place.home}: "
                f"its account cannot reach {keeper.base}, or the path is too long."
            )

    def prepare(self) -> str:
        """Migrate, then make the first house; return the path of its sign-in link."""
        self.once("migrate", ["migrate", "--no-input", "-v", "0"])
        with tempfile.TemporaryFile() as printed:
            arguments = roles.prepare(demo=self.options.demo)
            self.once("prepare", arguments, stdout=printed.fileno())
            printed.seek(0)
            return printed.read().decode(errors="replace").strip()

    def once(self, name: str, arguments: list[str], stdout: int | None = None) -> None:
        """Run a command of manage.py to its end, unless told to stop."""
        if self.stops:
            return
        child = Child(name, roles.manage(arguments), self.environment())
        self.children.append(child)
        self.start(child, stdout=stdout)
        if self.until(lambda: child.process is None) and child.ended:
            raise NotStarted(
                f"{name} ended by {child.how_it_ended()}; see {self.log.path}."
            )

    def environment(self) -> dict[str, str]:
        options = self.options
        return roles.environment(
            options.folder, self.url, options.host, self.addresses()
        )

    def addresses(self) -> dict[str, str]:
        own = {keeper.name: keeper.server for keeper in self.keepers}
        return roles.external() | {
            variable: server.url
            for name, variable, _ in SERVERS
            if (server := own.get(name))
        }

    def start_roles(self) -> None:
        fd = self.bound.fileno()
        for name, argv in roles.commands(fd).items():
            env = self.environment() | {"THREADWORK_ROLE": name}
            sockets = [fd] if name == "web" else []
            self.children.append(Child(name, argv, env, sockets))

    def announce(self, link: str) -> None:
        if not self.until(lambda: door.listens(self.bound)):
            return
        self.log.say(f"Threadwork is running at {self.url}")
        if link:
            self.log.print(f"Sign in once with {self.url}{link}")
        self.log.print("Stop it with Ctrl-C.")

    def write(self) -> None:
        """Say which process is which, to whoever reads the folder."""
        pids = {
            keeper.name: keeper.server.pid for keeper in self.keepers if keeper.server
        }
        pids |= {
            child.name: child.process.pid for child in self.children if child.process
        }
        addresses = self.addresses()
        said = {
            "url": self.url,
            "database_url": addresses.get("DATABASE_URL"),
            "broker_url": addresses.get("BROKER_URL"),
            "processes": {
                name: pids.get(name) for name in ("postgres", "broker", *roles.NAMES)
            },
        }
        folder.write(self.options.folder, said)

    def close(self) -> None:
        """End the roles, then the servers they need, and leave nothing behind."""
        self.stops = max(self.stops, 1)
        enough = self.stops + 1
        end = time.monotonic() + GRACE_SECONDS
        for child in self.children:
            child.end(signal.SIGTERM)
        self.until(lambda: self.all_ended() or time.monotonic() > end, stops=enough)
        for child in self.children:
            child.end(signal.SIGKILL, group=True)
        self.until(self.all_ended, stops=enough + 1)
        leftovers.end(self.options.folder)
        for keeper in self.keepers:
            keeper.end(seconds=SERVER_SECONDS)
        folder.clear(self.options.folder)
        self.log.note("Stopped.")

    def all_ended(self) -> bool:
        return all(child.process is None for child in self.children)
