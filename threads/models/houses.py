from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class House(models.Model):
    """A tenant: its people, bots, threads and workflows."""

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=200)
    namespace = models.CharField(max_length=64, default="default")
    limits = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.name


class Member(models.Model):
    class Role(models.TextChoices):
        OWNER = "owner"
        AUTHOR = "author"
        MEMBER = "member"
        VIEWER = "viewer"

    house = models.ForeignKey(House, models.PROTECT, related_name="members")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="memberships"
    )
    role = models.CharField(max_length=10, choices=Role, default=Role.MEMBER)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["house", "user"]
        constraints = [
            models.UniqueConstraint(fields=["house", "user"], name="member_once"),
            models.CheckConstraint(
                condition=models.Q(role__in=["owner", "author", "member", "viewer"]),
                name="member_role_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.house}"


class Secret(models.Model):
    """A named value that reaches commands as environment and is never shown."""

    house = models.ForeignKey(House, models.PROTECT, related_name="secrets")
    name = models.CharField(max_length=100)
    value = models.BinaryField()
    updated_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["house", "name"]
        constraints = [
            models.UniqueConstraint(fields=["house", "name"], name="secret_once"),
        ]

    def __str__(self) -> str:
        return self.name
