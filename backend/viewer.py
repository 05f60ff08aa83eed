"""Who is looking: the person, role and browser that every handler and route acts for."""

from dataclasses import dataclass
from enum import StrEnum

from backend.errors import NotAllowed


class Role(StrEnum):
    """What a person may do. Each includes the ones below it."""

    ADMIN = "admin"  # people, keys, settings
    OPERATOR = "operator"  # launch, stop, download, diagnose
    MEMBER = "member"  # chat, look


_RANK = {Role.MEMBER: 0, Role.OPERATOR: 1, Role.ADMIN: 2}


@dataclass(frozen=True)
class Viewer:
    """One person at one browser. Before accounts exist everybody is the local admin and only the browser differs."""

    user: str
    role: Role
    browser: str  # the random id in the browser's cookie: owner of its conversation; never shown, never logged


def require(viewer: Viewer, role: Role) -> None:
    """Pass when the viewer's role is `role` or above it, else raise NotAllowed."""
    if _RANK[viewer.role] < _RANK[role]:
        raise NotAllowed(
            f"This needs the role {role}; {viewer.user} is {viewer.role}.",
            hint="Ask an admin of this panel.",
        )
