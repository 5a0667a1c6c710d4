"""Output as a person reads it: text, no escapes, and a mark where some is left out."""

from __future__ import annotations

import codecs
import re

from threads import text

# The beginning of an escape sequence at the end of a piece: the next piece may end it.
UNFINISHED = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]{0,4096}\x1b?|[ -/]*)\Z"
)
CUT = re.compile(r"\x1b\[[0-?]*[ -/]*\Z")
LONGEST = 4200
BACK = re.compile(r"\r+(\n?)")


def decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def left_out(count: int) -> str:
    return f"… {count} bytes left out …"


def render(head: bytes, tail: bytes, dropped: int) -> str:
    """Return both ends as one text, with the mark between them where they are apart."""
    if not dropped:
        return readable(decode(head + tail))
    parts = [
        readable(decode(whole_end(head))),
        left_out(dropped + len(head) - len(whole_end(head)) + continuation(tail)),
        readable(decode(tail[continuation(tail) :])),
    ]
    return "\n".join(parts)


def left(head: bytes, tail: bytes, dropped: int) -> int:
    """Return how many bytes are not in the text, torn characters included."""
    if not dropped:
        return 0
    return dropped + len(head) - len(whole_end(head)) + continuation(tail)


def whole_end(head: bytes) -> bytes:
    """Cut a character that the end of the bytes tears apart."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(head)
    held, _ = decoder.getstate()
    return head[: len(head) - len(held)]


def continuation(tail: bytes) -> int:
    """Return how many bytes at the start belong to a character torn apart."""
    count = 0
    while count < min(3, len(tail)) and tail[count] & 0xC0 == 0x80:
        count += 1
    return count


def readable(words: str) -> str:
    """Return text without escapes, with what a progress bar showed last."""
    plain = inert(words).replace("\r\n", "\n")
    if "\r" not in plain:
        return plain
    return "\n".join(last_state(line) for line in plain.split("\n"))


def inert(words: str) -> str:
    return text.ESCAPE.sub("", CUT.sub("", text.clean(words)))


def last_state(line: str) -> str:
    return next((state for state in reversed(line.split("\r")) if state), "")


class Live:
    """Turns pieces of output into readable text as they come.

    Split characters, escapes and line ends wait for their other half; every state of a
    progress bar is a line of its own.
    """

    def __init__(self) -> None:
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.held = ""
        self.fresh = True  # at the start of a line

    def feed(self, data: bytes, *, final: bool = False) -> str:
        words = self.held + self.decoder.decode(data, final)
        self.held = ""
        if not final:
            words, self.held = self.split(words)
        words = BACK.sub(self.line_end, inert(words))
        self.fresh = words.endswith("\n") if words else self.fresh
        return words

    def split(self, words: str) -> tuple[str, str]:
        if torn := UNFINISHED.search(words, max(len(words) - LONGEST, 0)):
            cut = torn.start()
        else:
            cut = len(words.rstrip("\r"))
        return words[:cut], words[cut:]

    def line_end(self, found: re.Match[str]) -> str:
        start = found.start()
        fresh = found.string[start - 1] == "\n" if start else self.fresh
        return found[1] if fresh else "\n"
