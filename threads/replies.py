"""How a free reply to an approve gate is read. What is unclear is nobody's answer.

A reply decides when it opens with a decisive word that ends there (the end of the
line, or one of `, . !`) and nothing behind it takes that back: no word of the other
side, no negation, no condition, no question. Asking again costs a moment, a wrong
guess costs what the gate protects, so every list of doubts is wider than the decisive one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

Answer = Literal["approve", "reject"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DECISIVE: dict[str, Answer] = {
    "yes": "approve",
    "ok": "approve",
    "okay": "approve",
    "approve": "approve",
    "approved": "approve",
    "lgtm": "approve",
    "👍": "approve",
    "+1": "approve",
    "no": "reject",
    "reject": "reject",
    "rejected": "reject",
    "👎": "reject",
    "-1": "reject",
}
# They add nothing to an answer of their own side.
POLITE = {("thanks",), ("please",), ("thank", "you")}
ECHOES: dict[Answer, set[tuple[str, ...]]] = {
    "approve": {("go", "ahead"), *POLITE},
    "reject": {("stop",), *POLITE},
}
NEGATIONS = _words("no not never none nor neither nothing nobody without cannot")
# As typed in a hurry; with the apostrophe the ending alone tells.
HURRIED = {
    f"{stem}nt"
    for stem in _words("ca do does did wo would should is are was have has could ai")
}
CONDITIONS = _words(
    "if but unless until till wait waiting when whenever except once only provided "
    "providing assuming however though although otherwise instead maybe perhaps"
)
AGAINST: dict[Answer, frozenset[str]] = {
    "approve": _words(
        "stop hold halt pause cancel abort nope nah deny denied decline declined "
        "refuse disapprove disapproved disagree"
    ),
    "reject": _words(
        "go ahead proceed fine good great sure yep yeah yup agree agreed accept accepted"
    ),
}

INVISIBLE = re.compile(
    "[\u200b-\u200f\u202a-\u202e\u2060\ufe0e\ufe0f\ufeff\U0001f3fb-\U0001f3ff]"
)
THUMB = re.compile("([👍👎])")
QUESTION = re.compile("[?？؟¿]")
PIECE = re.compile(r"[,.!\n]|[^\s,.!]+")
MARKS = frozenset(",.!\n")
ROUND = "\"'“”()[]{}<>*_`:;…–—"


def read_approval(text: str) -> Answer | None:
    """Return what a reply to an approve gate decides, or None where it is unclear."""
    pieces = PIECE.findall(_plain(text))
    side = DECISIVE.get(pieces[0]) if pieces else None
    if side is None or QUESTION.search(text):
        return None
    end = _skip_echoes(pieces, 1, side)
    if end < len(pieces) and pieces[end] not in MARKS:
        return None
    rest = [piece for piece in pieces[end:] if piece not in MARKS]
    return None if _taken_back(rest, side) else side


def _plain(text: str) -> str:
    text = THUMB.sub(r" \1 ", INVISIBLE.sub("", text)).strip().casefold()
    return re.sub("[’‘ʼ′`]", "'", text).replace("−", "-")


def _skip_echoes(pieces: Sequence[str], at: int, side: Answer) -> int:
    """Return where the pieces stop that only repeat or thank."""
    while at < len(pieces):
        if DECISIVE.get(pieces[at]) == side:
            at += 1
        elif width := _echo(pieces, at, side):
            at += width
        else:
            break
    return at


def _echo(pieces: Sequence[str], at: int, side: Answer) -> int:
    for echo in ECHOES[side]:
        if tuple(pieces[at : at + len(echo)]) == echo:
            return len(echo)
    return 0


def _taken_back(rest: Sequence[str], side: Answer) -> bool:
    # “No, no, no!” only repeats itself, while “no, no problem” may mean the opposite.
    at = _skip_echoes(rest, 0, side)
    if at == len(rest):
        return False
    return any(_doubts(piece, side) for piece in rest)


def _doubts(piece: str, side: Answer) -> bool:
    if DECISIVE.get(piece, side) != side:
        return True
    return any(
        word.endswith("n't")
        or word in NEGATIONS
        or word in HURRIED
        or word in CONDITIONS
        or word in AGAINST[side]
        or DECISIVE.get(word, side) != side
        for word in re.split("[-/]", piece.strip(ROUND))
    )
