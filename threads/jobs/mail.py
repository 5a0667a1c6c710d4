"""Send one mail."""

from __future__ import annotations

from django.core.mail import send_mail

from threads.envelopes import Mail


def handle(mail: Mail) -> None:
    send_mail(mail.subject, mail.text, None, [mail.to])
