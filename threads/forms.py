"""What people send to a thread or a gate."""

from __future__ import annotations

from typing import Any

from django import forms

from threads.exceptions import BadAnswer


class AnswerForm(forms.Form):
    """An answer to one gate; what it may be, the gate itself decides."""

    gate = forms.UUIDField()
    answer = forms.CharField(required=False, strip=False)
    comment = forms.CharField(required=False)

    def given(self) -> dict[str, Any]:
        """Return what was sent; raise BadAnswer where no gate is named."""
        if not self.is_valid() and "gate" in self.errors:
            raise BadAnswer("This form does not say which question it answers.")
        # A control character is refused by the verb, which says which field it is in.
        return {name: self.kept(name) for name in ("gate", "answer", "comment")}

    def kept(self, name: str) -> Any:
        return self.cleaned_data.get(name, self.data.get(name, ""))


class ReplyForm(forms.Form):
    """Words for a thread, or the reason of a cancel."""

    text = forms.CharField(required=False, strip=False)

    def words(self) -> str:
        """Return the words as sent; the verb says what cannot be kept."""
        return str(self.data.get("text", "")).replace("\r\n", "\n")
