"""An issuer's tokens: JSON Web Tokens (RFC 7519), verified by PyJWT.

The algorithm is one that the configuration allows and that the key is for; a token's header chooses among
those only, so that neither ``none`` nor an HMAC with a public key as its secret is ever computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import jwt
from jwt import exceptions

from authorizer.authentication.rejection import Reason, RejectionError
from records.principal import ANONYMOUS, KafkaPrincipal

if TYPE_CHECKING:
    from authorizer.authentication.key_set import KeySet
    from authorizer.configuration.load import Config

#: The first that an error is an instance of; what is in none of these is malformed.
_REASONS: Final[tuple[tuple[type[Exception], Reason, str], ...]] = (
    (exceptions.ExpiredSignatureError, Reason.EXPIRED, "the token has expired"),
    (exceptions.ImmatureSignatureError, Reason.NOT_YET_VALID, "the token is not valid yet"),
    (exceptions.InvalidAudienceError, Reason.AUDIENCE, "the token is for another audience"),
    (exceptions.InvalidIssuerError, Reason.ISSUER, "the token is of another issuer"),
    (exceptions.InvalidAlgorithmError, Reason.ALGORITHM, "the token's algorithm is not one of its key"),
    (exceptions.InvalidSignatureError, Reason.SIGNATURE, "the token's signature is not its key's"),
    (exceptions.MissingRequiredClaimError, Reason.CLAIM, "the token needs iss, aud and exp"),
)

_TIMES: Final = ("exp", "nbf", "iat")
#: What a float has exactly. Milliseconds, which some issuers write, are less.
_TIME_MAX: Final = 2**53


class OidcTokens:
    """Verifies tokens as the configuration says."""

    def __init__(self, config: Config) -> None:
        self._issuer = config.auth_oidc_issuer
        self._audience = config.auth_oidc_audience
        self._claim = config.auth_oidc_principal_claim
        self._algorithms = frozenset(config.auth_oidc_algorithms)
        self._leeway_s = config.auth_oidc_leeway_ms / 1000

    def verify(self, token: str, keys: KeySet) -> tuple[KafkaPrincipal, float]:
        """Whose token it is, and until when (seconds since the epoch). RejectionError: it is not valid."""
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in self._algorithms:
                raise RejectionError(Reason.ALGORITHM, "the token's algorithm is not allowed here")
            of_key = keys.of(header.get("kid"))
            if of_key is None:
                raise RejectionError(Reason.UNKNOWN_KEY, "the token's key is none of its issuer's")
            if algorithm not in of_key:
                raise RejectionError(Reason.ALGORITHM, "the token's algorithm is not one of its key")
            claims = jwt.decode(
                token,
                of_key[algorithm],
                algorithms=[algorithm],
                issuer=self._issuer,
                audience=self._audience,
                leeway=self._leeway_s,
                options={"require": ["iss", "aud", "exp"]},
            )
            until_s = _until_s(claims)
        except (exceptions.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            for kind, reason, message in _REASONS:
                if isinstance(error, kind):
                    raise RejectionError(reason, message) from error
            raise RejectionError(Reason.MALFORMED, "this is no JSON Web Token") from error
        return self._principal(claims), until_s + self._leeway_s

    def _principal(self, claims: dict[str, Any]) -> KafkaPrincipal:
        name = claims.get(self._claim)
        # ANONYMOUS is who has no token.
        if not isinstance(name, str) or not name or name == ANONYMOUS.name:
            raise RejectionError(Reason.CLAIM, "the token has no claim that names its principal")
        return KafkaPrincipal(ANONYMOUS.principal_type, name)


def _until_s(claims: dict[str, Any]) -> float:
    """When a token expires, once its times were found to be numbers (RFC 7519, section 2).

    RejectionError: one is none, or beyond all time. PyJWT takes texts of numbers, and true for 1.
    """
    for name in _TIMES:
        value = claims.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _TIME_MAX:
            raise RejectionError(Reason.CLAIM, "exp, nbf and iat of a token are seconds since 1970")
    return float(int(claims["exp"]))  # whole seconds, as PyJWT compares them
