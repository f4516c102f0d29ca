"""What AuthZEN's searches are asked with (1.0, section 8). No state, no sockets.

What is searched for has a type and no id; one that is there is ignored, as every unknown field is.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from authorizer.sidecar.routes.authzen import ActionName, Context, Resource, Subject
from authorizer.sidecar.routes.page_token import search_id

#: Results of a page that asks for no number, and for any.
PAGE_DEFAULT: Final = 1_000
PAGE_MAXIMUM: Final = 10_000


class OfType(msgspec.Struct, gc=False):
    """What is searched for."""

    type: str


class Page(msgspec.Struct, gc=False):
    """Which part of the results."""

    token: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=0)] = PAGE_DEFAULT


class _Search(msgspec.Struct, kw_only=True):
    context: Context = msgspec.field(default_factory=Context)
    page: Page = msgspec.field(default_factory=Page)

    @property
    def limit(self) -> int:
        """Results of this page at most."""
        return min(self.page.limit, PAGE_MAXIMUM)

    def id(self) -> str:
        """The same for all pages; min_offset only waits."""
        inputs = msgspec.structs.asdict(self) | {"page": None}
        context = (self.context.host, self.context.at_offset)
        return search_id(type(self).__name__, inputs | {"context": context})


class SubjectSearch(_Search, kw_only=True):
    """Who may?"""

    subject: OfType
    action: ActionName
    resource: Resource


class ResourceSearch(_Search, kw_only=True):
    """On which resources?"""

    subject: Subject
    action: ActionName
    resource: OfType


class ActionSearch(_Search, kw_only=True):
    """What?"""

    subject: Subject
    resource: Resource
