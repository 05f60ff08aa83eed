"""backend.viewer: what each role may do."""

import pytest

from backend.errors import NotAllowed
from backend.viewer import Role, Viewer, require

PERMITTED = {
    Role.ADMIN: {Role.ADMIN, Role.OPERATOR, Role.MEMBER},
    Role.OPERATOR: {Role.OPERATOR, Role.MEMBER},
    Role.MEMBER: {Role.MEMBER},
}


@pytest.mark.parametrize("needed", Role)
@pytest.mark.parametrize("role", Role)
def test_a_role_includes_those_below_it_and_no_other(role: Role, needed: Role) -> None:
    viewer = Viewer("ana", role, "browser")
    if needed in PERMITTED[role]:
        require(viewer, needed)
    else:
        with pytest.raises(NotAllowed, match=f"role {needed}; ana is {role}"):
            require(viewer, needed)


def test_the_browser_id_is_not_told_to_the_one_who_is_refused() -> None:
    with pytest.raises(NotAllowed) as refusal:
        require(Viewer("ana", Role.MEMBER, "secret-cookie"), Role.ADMIN)
    assert "secret-cookie" not in str(refusal.value)
