"""Requests of AuthZEN's searches (1.0, section 8). Pure.

What is searched for has a type and no id; one that is there is ignored, as every unknown field is.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Annotated, Final, Self

import msgspec

from authorizer.api.http.answers.decisions import OperationName, TypedName
from authorizer.sidecar.http.errors import invalid_request
from authorizer.sidecar.routes.authzen import Context


class PageToken(msgspec.Struct, array_like=True, frozen=True):
    """See the module.

    Attributes:
        after: the last result that was given; None before the first.
        search: see ``search_id``.
    """

    end_offset: int
    after: str | None
    search: str

    def encode(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode("ascii")

    @classmethod
    def decode(cls, text: str, search: str) -> Self:
        """Parse ``encode``. HttpError 400: it is no token, or one of another search."""
        try:
            token = msgspec.json.decode(base64.urlsafe_b64decode(text.encode("ascii")), type=cls)
        except (ValueError, msgspec.MsgspecError) as error:
            raise invalid_request("page.token is none that was given here") from error
        if token.search != search:
            raise invalid_request(
                "page.token is of another search: subject, action, resource and context must be the same"
            )
        return token


def search_id(*inputs: object) -> str:
    """An id of a search, the same for all its pages."""
    return hashlib.blake2b(msgspec.json.encode(inputs), digest_size=8).hexdigest()


#: Results of a page that asks for no number, and for any.
PAGE_DEFAULT: Final = 1_000
PAGE_MAXIMUM: Final = 10_000


class OfType(msgspec.Struct, gc=False):
    """The type of the searched entities."""

    type: str


class Page(msgspec.Struct, gc=False):
    """The requested page of the results."""

    token: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=0)] = PAGE_DEFAULT


class _Search(msgspec.Struct, kw_only=True):
    context: Context = msgspec.field(default_factory=Context)
    page: Page = msgspec.field(default_factory=Page)

    @property
    def limit(self) -> int:
        """Maximum number of results on this page."""
        return min(self.page.limit, PAGE_MAXIMUM)

    def id(self) -> str:
        """The same for all pages: without min_offset, which only waits."""
        inputs = msgspec.structs.asdict(self) | {"page": None}
        context = (self.context.host, self.context.at_offset)
        return search_id(type(self).__name__, inputs | {"context": context})


class SubjectSearch(_Search, kw_only=True):
    """Search for principals that may do an operation to a resource."""

    subject: OfType
    action: OperationName
    resource: TypedName


class ResourceSearch(_Search, kw_only=True):
    """Search for resources to which a principal may do an operation."""

    subject: TypedName
    action: OperationName
    resource: OfType


class ActionSearch(_Search, kw_only=True):
    """Search for operations that a principal may do to a resource."""

    subject: TypedName
    resource: TypedName
