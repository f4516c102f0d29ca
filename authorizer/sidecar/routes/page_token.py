"""The token of a search's next page: the state that it is of, the last result, and which search it was.

It carries no right: each page is guarded as the first one.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

import msgspec

from authorizer.sidecar.http.errors import invalid_request

if TYPE_CHECKING:
    from typing import Self


class PageToken(msgspec.Struct, array_like=True, frozen=True):
    """See the module.

    Attributes:
        end_offset: of the state.
        after: the last result that was given; None before the first.
        search: see ``search_id``.
    """

    end_offset: int
    after: str | None
    search: str

    def encode(self) -> str:
        """As text."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode("ascii")

    @classmethod
    def decode(cls, text: str, search: str) -> Self:
        """What ``encode`` said, for the same search. HttpError 400: it did not, or for another one."""
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
    """What is the same for all pages of a search and for no other one."""
    return hashlib.blake2b(msgspec.json.encode(inputs), digest_size=8).hexdigest()
