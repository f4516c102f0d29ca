"""Login: how an AdminClient connects, for programs in any language."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What is empty is not used.

    Attributes:
        authority: file of the server's; without it there is no TLS.
        certificate: file with the client's chain and key.
        mechanism: of SASL.
        token: for OAUTHBEARER.
    """

    authority: str = ""
    certificate: str = ""
    mechanism: str = ""
    user: str = ""
    password: str = ""
    token: str = ""

    @property
    def protocol(self) -> str:
        """Kafka's security protocol."""
        if self.mechanism:
            return "SASL_SSL" if self.authority else "SASL_PLAINTEXT"
        return "SSL" if self.authority else "PLAINTEXT"

    @classmethod
    def of_text(cls, text: str) -> Self:
        """As a program gets it."""
        return cls(**json.loads(text))


#: On a PLAINTEXT listener.
NO_LOGIN: Final = Login()
