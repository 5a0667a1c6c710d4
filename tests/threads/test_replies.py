from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threads.replies import read_approval

APPROVED = r"""
yes|Yes|YES|yes.|yes!|yes!!!|yes,|  yes  |yes !|ok|OK|Ok.|okay|Okay!|approve|Approve.
approved|Approved!|APPROVED.|lgtm|LGTM|LGTM!|👍|👍🏽|👍🏿|👍️|👍👍|👍🏻 👍🏻|👍!|+1|+1!|+1.
yes, go ahead|yes go ahead|yes please|Yes, please!|ok thanks|ok, thanks|OK, thank you|approved, thanks
👍 thanks|👍, ship it|lgtm, ship it|LGTM! Nice work.|yes, publish it|Yes. Publish it.
ok, do it|ok. Go ahead.|ok go ahead, please|yes yes|yes yes yes!|ok, yes|yes, approved|approved 👍
yes 👍|yes👍|ok 👍 thanks|+1, thanks|+1 👍|Approved. Merge at will.
approve, great job everyone|Yes! Finally.|lgtm, thanks for the quick fix
approved, I read all of it|yes, I am sure|ok, looks right to me|yes,thanks
👍 go ahead|yes, both of them|approve!|ok,|approved, and thank you
yes\nThanks, Alice|Approved\n-- \nBob|yes, thanks @bob|ok @bob|ok, thanks Zoë, ship it|yes, thanks,\nBob|👍 ship it
yes, looks good to me|LGTM, merge it|ok, do it, thanks|yes, deploy it please|approved, for me|ok, from me|yes, sounds good
yes. All good!|ok, good work|ok, great job|yes, let's go|yes, let’s go|ok, carry on|yes, proceed|ok, done|👍🎉|yes 🚀
yes, of course|ok! Great, go ahead.|approved, sounds great, publish it|👍 looks good ❤️|yes :)|+1, works for me|YES, SHIP IT
"""
REJECTED = r"""
no|No|NO|no.|no!|No!!|no,|  no |reject|Reject.|REJECT!|rejected|Rejected.|👎|👎🏼|👎️|👎👎|👎!|-1|-1.|−1
no, stop|no stop|No, stop, please|no thanks|No, thanks.|no, thank you|no please|no, please stop
no, the tests are red|No. The branch is stale.|no! This breaks the login|no, wrong branch|no, bad idea
reject, the version is wrong|Rejected. See the failing test.|rejected, wrong customer|👎, the totals are off
👎 stop|👎 thanks|-1, too risky|-1. The backup is missing.|no no no|no, no|no, no, no!|No no, stop
no 👎|no, reject|no. Rejected.|reject, please|no, it is Friday|no, revert this|No, we publish next week
no, the tests fail|reject: wrong branch|👎 the numbers are off|No: the backup is missing|👎: wrong customer|no, cancel it
no, kill it|no, too risky|no, thanks @bob|no, thanks Bob|no, sorry, the totals moved|reject, I object|no, scrap it ❌|no 🛑
👎 revert this|-1, we publish to the wrong place|rejected. Legal says it breaks the contract.|no, bob found a leak|No.\nThe log is empty.
"""
UNCLEAR = r"""
|   |?|.|!|...|hm|hmm|maybe|perhaps|sure|yep|yeah|yup|nope|nah|fine|great|done|go|go ahead|stop|thanks|please|thank you
go ahead, please|stop, please|y|n|k|kk|why|what|who|later|not yet|not ok|not ok yet|ok not yet|ok, not yet
don't approve|don’t approve|do not approve|dont approve|please don't|never|no problem|no problem, approved|no worries
No problem!|no objections|no objection, approve|no issues from me|no concerns, lgtm|not approved|unapproved|disapprove
yes but wait|yes, but wait|yes, but not today|ok but fix the typo|ok, but fix the typo|approved, but only for staging
yes if the tests pass|yes, if the tests pass|yes unless it is Friday|yes, unless Bob objects|approve, until noon
ok, wait|ok. Wait.|ok wait|yes, wait a minute|yes, waiting for the build|yes, when the build is green|approve when ready
approve, except the last file|yes, once the build is green|yes, provided that it is tested|ok, assuming it is tested
ok?|yes?|approve?|👍?|Approved? Really|yes, is it tested?|no?|no, why?|reject? I think so|yes, ok？
yes and no|yes or no|yes/no|yes, no|no, yes|yes. No.|no. Yes!|yes no|no yes|ok no|ok, no|no ok|no, ok|👍👎|👎 👍|👍, 👎|+1 -1|+1, -1|-1, +1
approved, no wait|approve, reject|reject, approve|rejected, approved|lgtm, -1|yes, rejected|no, approved|no, lgtm
yes, don't|yes, don't publish|yes, don’t publish|yes, do not publish|ok, never mind|ok, nothing to do|lgtm, can't test it
no, don't|no, not now|no, no problem|no, never mind|No, that's fine, ship it|no, go ahead|no, looks good to me|no, all good
yes, stop|ok, stop it|yes, hold on|yes, cancel it|ok, abort|ok, nope|approved, though I doubt it|yes, however late it is
I approve|I say yes|we reject|this is ok|it's a yes|my answer is no|looks good|looks good to me|ship it|do it|merge|proceed
yesterday|okey|oker|noted|note that it is red|nobody knows|november|oklahoma|approver|approves|approving|rejecting|lgtmm
yes: ship it|yes; ship it|yes - ship it|yes... but|yes (all of it)|ok then|ok so what next|ok I will look|no way|no idea|no one is here
+10|+1000|-10|-1.5 is not the answer|+2|1|0|100|👌|🎉|✅|❌|:+1:|:shipit:|approved-ish|ok-ish|no-go|yes-man
"yes"|**approve**|`approve`|> yes|(no)|[approve]|@runner yes|please approve|please reject|thanks, approved
ok, as soon as CI is green|yes, as long as tests pass|yes, on condition that x|yes, depending on x|yes, given CI passes
approved, subject to review|yes, after review|ok, pending legal|ok, asking Bob first|yes, let us discuss first|ok, need more time
ok, later|yes, tomorrow|yes, in a minute|ok, hang on|ok, revert|yes, rollback|ok, scrap it|yes, kill it|yes, skip it|yes, fail it
yes, veto|yes, I object|ok. nevermind|👍, jk|ok, just kidding|yes, too risky|yes, hardly|ok, cancelled|ok, refused|ok, rejecting
yes, stopped|ok, stopping it|yes, aborting|no, ship it|No. Publish it.|no, please deploy it|no! Merge.|👎 ship it|no, just send it
yes. Publish it to main.|yes, publish it to staging|approve, this is what we agreed on|yes, that was the last open point
Ok! The numbers match.|approved. See you on Monday.|yes, ship it tomorrow|ok, thanks for nothing|yes, absolutely not|ok, looks bad
yes, do it later|yes, do it again|ok, good enough|ok, great idea to stop|ok...|yes...|ok, thanks...|yes, ship it...|👍🤔|👍 🙃|yes, 😂
yes, ❌|👍 👎 👍|yes, thanks, Later|yes, thanks Wait|yes. thanks, Cancel|yes, thanks Stopped|yes, thanks,\nRevert|no, I am happy with it|yes. Thanks. Bob decides.|ok, @bob decides|yes, @bob please approve|ok, ask @bob
yes, Bob|ok, Bob first|yes\nNot really|yes\n-- \nnot really|yes\n> ship it\nor not|> should it stop\nyes|ok, half of it
no, jk|no, just kidding|no, nevermind|no, hang on|no, it works|no, the tests pass|no, later|no, Bob first|no, pending legal|no, carry on
no, as soon as CI is green|no, after review|no 🎉|👎 ✅|👎, 😂|no, of course|no, absolutely fine|no, let it through|no: ship it|reject: jk
are you ok|is it ok to approve|can I approve this|who said no|should we say yes|I would approve if I could
"""


def phrases(table: str) -> list[str]:
    cells = [cell for line in table.strip("\n").split("\n") for cell in line.split("|")]
    return [cell.replace("\\n", "\n") for cell in cells]


@pytest.mark.parametrize("text", phrases(APPROVED))
def test_a_reply_that_approves(text):
    assert read_approval(text) == "approve"


@pytest.mark.parametrize("text", phrases(REJECTED))
def test_a_reply_that_rejects(text):
    assert read_approval(text) == "reject"


@pytest.mark.parametrize("text", phrases(UNCLEAR))
def test_a_reply_that_decides_nothing(text):
    assert read_approval(text) is None


def test_a_mail_with_its_quotation_is_read_by_its_first_line():
    quoted = "Approved.\n\nOn Monday System wrote:\n> Publish the branch"

    assert read_approval(quoted) == "approve"


@pytest.mark.parametrize("doubt", ["if", "but", "unless", "until", "wait", "when", "except"])  # fmt: skip
@pytest.mark.parametrize(
    "word", ["yes", "ok", "approved", "👍", "no", "rejected", "-1"]
)
def test_a_condition_leaves_the_gate_open(word, doubt):
    assert read_approval(f"{word}, {doubt} it rains") is None
    assert read_approval(f"{word} {doubt} it rains") is None


@given(st.text())
def test_any_text_is_read_without_fault(text):
    assert read_approval(text) in {"approve", "reject", None}


@given(st.sampled_from(["yes", "no", "👍", "-1"]), st.text())
def test_a_question_is_never_an_answer(word, text):
    assert read_approval(f"{word}, {text}?") is None
