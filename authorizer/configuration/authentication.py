"""Validation of the keys of authentication together, at the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from authorizer.api.authorizer_api import Endpoint, SecurityProtocol
from authorizer.api.errors import ConfigError
from authorizer.api.ip_address import is_loopback
from authorizer.configuration.keys.names import (
    ADMIN_LISTENERS,
    AUTH_OIDC_AUDIENCE,
    AUTH_OIDC_ISSUER,
    AUTH_OIDC_JWKS,
    AUTH_REQUIRED_LISTENERS,
    AUTH_TOKENS_FILE,
)
from authorizer.configuration.listeners import is_unix


def require_complete_authentication(
    values: Mapping[str, Any], listeners: Sequence[Endpoint], admin_listeners: Sequence[Endpoint]
) -> None:
    """Refuse incomplete settings of an issuer, and listeners that would answer no caller."""
    _require_complete_issuer(values)
    for_admin = {endpoint.listener_name: endpoint for endpoint in admin_listeners}
    by_name = for_admin | {endpoint.listener_name: endpoint for endpoint in listeners}
    for name in values[AUTH_REQUIRED_LISTENERS]:
        if name not in by_name:
            raise ConfigError(AUTH_REQUIRED_LISTENERS, name, f"names out of {', '.join(map(str, by_name))}")
        if (admin := for_admin.get(name)) and admin.security_protocol is SecurityProtocol.PLAINTEXT:
            raise ConfigError(
                AUTH_REQUIRED_LISTENERS,
                name,
                f"{ADMIN_LISTENERS} has it with PLAINTEXT, without logins",
            )
        if name in for_admin and by_name[name] is for_admin[name]:
            continue
        endpoint = by_name[name]
        if endpoint.security_protocol is SecurityProtocol.SSL or is_unix(endpoint):
            continue
        if not is_loopback(endpoint.host):
            raise ConfigError(
                AUTH_REQUIRED_LISTENERS, name, "listeners with SSL or on loopback: others see no token there"
            )
        if values[AUTH_TOKENS_FILE] is None and values[AUTH_OIDC_JWKS] is None:
            raise ConfigError(
                AUTH_REQUIRED_LISTENERS,
                name,
                f"only with {AUTH_TOKENS_FILE} or {AUTH_OIDC_JWKS}: else nobody could ask there",
            )


def _require_complete_issuer(values: Mapping[str, Any]) -> None:
    jwks, issuer, audience = (values[key] for key in (AUTH_OIDC_JWKS, AUTH_OIDC_ISSUER, AUTH_OIDC_AUDIENCE))
    if jwks is not None and not issuer:
        raise ConfigError(AUTH_OIDC_ISSUER, "", f"{AUTH_OIDC_JWKS} takes it: name whose tokens are taken")
    if jwks is not None and not audience:
        raise ConfigError(AUTH_OIDC_AUDIENCE, "", f"{AUTH_OIDC_JWKS} takes it: name for whom tokens must be")
    if jwks is None and (issuer or audience):
        key, text = (AUTH_OIDC_ISSUER, issuer) if issuer else (AUTH_OIDC_AUDIENCE, ",".join(audience))
        raise ConfigError(key, text, f"only with {AUTH_OIDC_JWKS}, the keys that tokens are checked with")
