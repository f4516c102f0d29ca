"""Tokens with a slow hash in the tokens file, as earlier versions wrote them."""

from __future__ import annotations

from authorizer.sidecar.auth.stored_tokens import ScryptCost, StoredToken, new_token
from records.principal import KafkaPrincipal

SALT = b"sixteen bytes of"


def slow_token(principal: KafkaPrincipal, cost: ScryptCost | None = None) -> tuple[str, StoredToken]:
    """A new token, and its entry in the file."""
    token, made = new_token(principal)
    cost = cost or ScryptCost()
    return token, StoredToken(principal, made.id, cost, SALT, cost.hash(token, SALT))
