from __future__ import annotations

import pytest

from tests import factories
from threads import tenancy
from threads.exceptions import NotAllowed


def role(house, person) -> str:
    return str(house.members.get(user=person).role)


def test_a_house_keeps_at_least_one_owner(house, alice):
    with pytest.raises(NotAllowed, match="Home would have no owner"):
        tenancy.add_member(house, alice, role="viewer")

    assert role(house, alice) == "owner"


def test_an_owner_steps_down_once_somebody_else_is_one(house, alice):
    factories.member(house, "erin", role="owner")

    tenancy.add_member(house, alice, role="member")

    assert role(house, alice) == "member"
