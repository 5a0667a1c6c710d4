"""Which paths of a workspace a step's patterns mean. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

ANY_DEPTH = "**"


class Globs:
    """Patterns by segments; `**` is any number of folders, a folder is all in it."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = {pattern: segments(pattern) for pattern in patterns}
        self.met: set[str] = set()

    def matches(self, path: Sequence[str]) -> bool:
        """Whether a file is meant; the pattern that means it counts as met."""
        found = [name for name, parts in self.patterns.items() if fits(parts, path)]
        self.met.update(found)
        return bool(found)

    def leads_on(self, folder: Sequence[str]) -> bool:
        """Whether something in a folder may be meant."""
        return any(fits(parts, folder, part=True) for parts in self.patterns.values())

    @property
    def unmet(self) -> list[str]:
        return [name for name in self.patterns if name not in self.met]


def segments(pattern: str) -> tuple[str, ...]:
    parts: list[str] = []
    for part in pattern.split("/"):
        doubled = part == ANY_DEPTH and parts[-1:] == [ANY_DEPTH]
        if part not in {"", "."} and not doubled:
            parts.append(part)
    return tuple(parts)


def fits(pattern: Sequence[str], path: Sequence[str], *, part: bool = False) -> bool:
    """Whether a path, or a folder above it, is meant; `part`: or something below it.

    All the places of the pattern that the path so far may stand at are followed at
    once, so that no pattern takes longer than its length.
    """
    places = skipping(pattern, {0})
    for name in path:
        if len(pattern) in places:
            return True  # what lies in a folder that is meant
        after = {at for at in places if pattern[at] == ANY_DEPTH}
        after |= {
            at + 1
            for at in places
            if pattern[at] != ANY_DEPTH and fnmatchcase(name, pattern[at])
        }
        places = skipping(pattern, after)
    return bool(places) if part else len(pattern) in places


def skipping(pattern: Sequence[str], places: set[int]) -> set[int]:
    """Add the places that follow where `**` stands for no folder at all."""
    found = set(places)
    for at in sorted(places):
        step = at
        while step < len(pattern) and pattern[step] == ANY_DEPTH:
            step += 1
            found.add(step)
    return found
