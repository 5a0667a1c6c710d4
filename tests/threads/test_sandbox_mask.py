from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.threads.sandboxes import each, run
from threads.runtime.sandbox.supervision.mask import MASK, Mask

SECRET = "q7XkPw9Lm-" * 4


def masked(secrets: list[str], pieces: list[bytes]) -> bytes:
    mask = Mask(secrets)
    return b"".join(mask.feed(piece) for piece in pieces) + mask.flush()


@pytest.mark.parametrize(
    ("secrets", "said", "left"),
    [
        (["abc"], b"xabcy", b"x*y"),
        (["abc"], b"ababc", b"ab*"),
        (["abc"], b"ab", b"ab"),
        (["abc", "abcdef"], b"abcdefabc", b"**"),
        (["ab", "bxx"], b"zab!", b"z*!"),
        (["a"], b"banana", b"b*n*n*"),
        ([], b"anything", b"anything"),
    ],
)
def test_secrets_give_way_to_a_mask(secrets, said, left):
    assert masked(secrets, [said]) == left.replace(b"*", MASK)
    single = [said[n : n + 1] for n in range(len(said))]
    assert masked(secrets, single) == left.replace(b"*", MASK)


@given(st.lists(st.binary(max_size=30), max_size=12), st.data())
def test_no_way_of_cutting_the_stream_lets_a_secret_through(parts, data):
    stream = SECRET.encode().join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    edges = [0, *cuts, len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]

    assert masked([SECRET], pieces) == MASK.join(parts)


@each
@pytest.mark.parametrize("before", [0, 480, 495, 520])
def test_a_secret_at_the_cut_is_not_left_half_in_clear(box, tmp_path, before):
    said: list[str] = []
    script = (
        f"python3 -c \"import os; print('x' * {before} + os.environ['TOKEN']"
        " + 'y' * 5000)\""
    )

    result = run(
        box,
        tmp_path,
        script,
        emit=said.append,
        env={"TOKEN": SECRET},
        secrets=(SECRET,),
        max_output=1000,
    )

    for words in (result.output, "".join(said)):
        assert SECRET[:4] not in words
        assert SECRET[-4:] not in words


@each
def test_a_secret_said_in_two_breaths_is_masked_in_what_is_passed_on(box, tmp_path):
    said: list[str] = []
    script = (
        'printf "${TOKEN%?????}"; sleep 0.4; printf "${TOKEN#"${TOKEN%?????}"} end"'
    )

    run(
        box,
        tmp_path,
        script,
        emit=said.append,
        env={"TOKEN": SECRET},
        secrets=(SECRET,),
    )

    assert "".join(said) == "••• end"
