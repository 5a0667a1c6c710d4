"""`wf member`: who is in the house, and how they sign in."""

from __future__ import annotations

from django.conf import settings

from threads.models import Member
from workflows import setup
from workflows.cli import acting, values
from workflows.cli.commands import Commands, Options
from workflows.cli.output import Out


def add(commands: Commands) -> None:
    members = commands.group("member", help="who is in the house")
    add_ = members.add("add", add_member, help="add a person, or change their role")
    add_.add_argument("user", metavar="USER", help="a name or a mail address")
    add_.add_argument(
        "--role", metavar="R", required=True, help="owner, author, member or viewer"
    )
    members.add("list", list_members, help="list the members")


def add_member(out: Out, options: Options) -> None:
    who = acting.actor(house=options["house"], as_=options["as_"])
    who.needs("owner")
    role = values.one_of(options["role"], Member.Role.values, where="role")
    member, new = setup.add_person(who.house, options["user"], role=role)
    person = member.user
    link = None
    if not person.has_usable_password():
        link = settings.PUBLIC_URL.rstrip("/") + setup.sign_in_path(person)
    if out.as_json:
        line = {"user": person.get_username(), "role": member.role, "new": new}
        out.document({**line, "house": who.house.slug, "sign_in": link})
        return
    out.say(f"{person.get_username()} is {member.role} of {who.house.name}.")
    if link:
        out.say(f"They sign in once with {link}")


def list_members(out: Out, options: Options) -> None:
    who = acting.actor(house=options["house"], as_=options["as_"])
    members = Member.objects.filter(house=who.house).select_related("user")
    lines = [
        {
            "user": member.user.get_username(),
            "role": member.role,
            "email": member.user.email,
            "active": member.user.is_active,
        }
        for member in members.order_by("pk")
    ]
    if out.as_json:
        out.document(lines)
        return
    rows = [[line["user"], line["role"], line["email"]] for line in lines]
    out.table(["USER", "ROLE", "MAIL"], rows)
