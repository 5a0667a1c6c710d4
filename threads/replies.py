"""How a free reply to an approve gate is read. What is unclear is nobody's answer.

A reply decides when it opens with a decisive word that ends there (the end, or one of
`, . !`). An approval may carry only what a closed list knows to be harmless: thanks,
names, praise, “go ahead”. A rejection may give its reason in free words, for refusing
is the safe side, but with no word of approval, no negation and no condition. A question
is no answer. Asking again costs a moment, a wrong guess what the gate protects.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal

Answer = Literal["approve", "reject"]


def _words(text: str, between: str | None = None) -> frozenset[str]:
    return frozenset(text.split(between))


YES = _words("yes ok okay approve approved lgtm 👍 +1")
NO = _words("no reject rejected 👎 -1")
SIDES: dict[Answer, frozenset[str]] = {"approve": YES, "reject": NO}
GLAD = _words("🎉 🚀 ✅ ✔ 👏 🙌 👌 💯 🥳 😀 😃 😄 😊 🙂 ☺ ❤ 💚 :) :-)")
POLITE = _words("thanks|please|thank you|thx|cheers|🙏", "|")
# They repeat the answer, so they may follow it without a mark between.
ECHOES: dict[Answer, frozenset[str]] = {
    "approve": YES | POLITE | GLAD | {"go ahead"},
    "reject": NO | POLITE | _words("stop ❌ ⛔ 🛑"),
}
MARKS = frozenset(",.!\n")
ACTS = "(?:ship|publish|merge|deploy|release|send)"
HARMLESS = (
    ECHOES["approve"]
    | MARKS
    | {act + thing for act in ACTS[3:-1].split("|") for thing in ("", " it", " this")}
    | _words(
        "and thanks|and thank you|many thanks|thanks a lot|thanks so much|thanks again"
        "|thank you very much|thanks all|thanks everyone|thanks team|thanks for the fix"
        "|thanks for the quick fix|thanks for the work|do it|do so|do this|go|go on"
        "|go for it|let's go|lets go|carry on|continue|proceed|please proceed"
        "|merge at will|good to go|good|all good|good work|good job|great|great job"
        "|great job everyone|great work|nice|nice work|nice job|nice one|well done"
        "|perfect|excellent|awesome|finally|sounds good|sounds great|looks good"
        "|looks good to me|looks great|looks great to me|looks right|looks right to me"
        "|works for me|for me|from me|done|sure|of course|absolutely|definitely"
        "|certainly|agreed|i agree|i approve|i am sure|i'm sure|i read it"
        "|i read all of it|all of it|all of them|both of them",
        "|",
    )
)
LONGEST = max(len(phrase.split()) for phrase in HARMLESS)
NEGATIONS = _words("no not never none nor neither nothing nobody without cannot")
# As typed in a hurry; with the apostrophe the ending alone tells.
HURRIED = {f"{stem}nt" for stem in _words("ca do does did wo is are was have has")}
CONDITIONS = _words(
    "if but unless until till wait waiting when whenever except once only provided "
    "providing assuming however though although otherwise instead maybe perhaps given "
    "pending depending depends condition conditional subject later first tomorrow"
)
CONSENT = _words(
    "go ahead proceed continue fine good great sure yep yeah yup agree agreed accept "
    "accepted approving perfect works pass passes passed solved let going happy"
)
RETRACTED = _words("nevermind jk kidding joking joke oops 😂 🤣 😜 😉 🙃 ;) ;-)")
DOUBTS = NEGATIONS | HURRIED | CONDITIONS | CONSENT | RETRACTED | YES | GLAD
# “No, ship it” may mean yes, while “no, we publish next week” is a reason.
TURNS = re.compile(
    rf"(?:^|[,.!\n] |\b(?:please|just|can|may|should) ){ACTS}\b"
    rf"|\b(?:{ACTS}|do) (?:it|this|that|so|them|now|anyway)\b"
    r"|(?:^|[,.!\n] )(?:after|before)\b"
    r"|\b(?:as soon as|as long as|hang on|hold on|carry on|of course)\b"
)

INVISIBLE = re.compile(
    "[\u200b-\u200f\u202a-\u202e\u2060\ufe0e\ufe0f\ufeff\U0001f3fb-\U0001f3ff]"
)
SIGN = re.compile("([👍👎🙏❌⛔🛑😂🤣😜😉🙃🎉🚀✅✔👏🙌👌💯🥳😀😃😄😊🙂☺❤💚])")
QUESTION = re.compile("[?？؟¿]")
COLON = re.compile(r"\A(no|reject|rejected|-1|👎)\s*:(?=\s)", re.IGNORECASE)
MENTION = re.compile(r"(?<!\S)@[\w-]+(?=\s*(?:[,.!\n]|\Z))")
NAME = re.compile(
    r"((?i:\b(?:thanks|thank you|thx|cheers))(?:,\s*|[ \t]+)|\n--\s*\n)"
    r"([^\W\d_]+)(?![^\s,.!])"
)
NO_NAME = re.compile(
    "(?i)stop|halt|paus|cancel|abort|re[jvf]|roll|drop|fail|kill|skip|not"
)
QUOTED = re.compile(r"\n[ \t]*On [^\n]* wrote:[ \t]*(?:\n>[^\n]*)+\s*\Z")
PIECE = re.compile(r"[,.!\n]|[^\s,.!]+")
ROUND = "\"'“”()[]{}<>*_`:;…–—"


def read_approval(text: str) -> Answer | None:
    """Return what a reply to an approve gate decides, or None where it is unclear."""
    pieces = PIECE.findall(_plain(text))
    side = next((side for side in SIDES if SIDES[side].issuperset(pieces[:1])), None)
    if not pieces or side is None or QUESTION.search(text):
        return None
    end = _skip(pieces, 1, ECHOES[side])
    # A thumb ends by itself.
    if not ({"👍", "👎"} & {*pieces[:end]} or MARKS.issuperset(pieces[end:][:1])):
        return None
    clear = _is_harmless if side == "approve" else _is_reason
    return side if clear(pieces[end:]) else None


def _plain(text: str) -> str:
    text = QUOTED.sub("", INVISIBLE.sub("", text).replace("−", "-")).strip()
    text = NAME.sub(_unnamed, MENTION.sub("", COLON.sub(r"\1,", text)))
    return re.sub("[’‘ʼ′`]", "'", SIGN.sub(r" \1 ", text)).casefold()


def _unnamed(match: re.Match[str]) -> str:
    opening, word = match.groups()
    doubtful = _doubts(word.casefold()) or NO_NAME.match(word)
    is_name = word.istitle() and not doubtful
    return opening.replace("--", "") if is_name else match[0]


def _skip(pieces: Sequence[str], at: int, known: Collection[str]) -> int:
    """Return where the pieces stop that are made of known phrases."""
    while at < len(pieces):
        ends = range(min(at + LONGEST, len(pieces)), at, -1)
        end = next((end for end in ends if " ".join(pieces[at:end]) in known), at)
        if end == at:
            return at
        at = end
    return at


def _is_harmless(rest: Sequence[str]) -> bool:
    # Dots that trail off (“ok...”) leave something unsaid.
    return _skip(rest, 0, HARMLESS) == len(rest) and ".." not in "".join(rest)


def _is_reason(rest: Sequence[str]) -> bool:
    # “No, no, no!” only repeats itself, while “no, no problem” may mean the opposite.
    if _skip(rest, 0, ECHOES["reject"] | MARKS) == len(rest):
        return True
    return not (TURNS.search(" ".join(rest)) or any(_doubts(piece) for piece in rest))


def _doubts(piece: str) -> bool:
    return piece in DOUBTS or any(
        word.endswith("n't") or word in DOUBTS
        for word in re.split("[-/]", piece.strip(ROUND))
    )
