"""Certificate authorities for tests, and the certificates that they issue, with elliptic curves."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_DAY: Final = timedelta(days=1)


def subject(rfc4514: str) -> x509.Name:
    """A name from its text, the last part first."""
    return x509.Name.from_rfc4514_string(rfc4514)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key.

    Attributes:
        chain: in PEM.
        key: in PEM, PKCS #8.
        der: the certificate.
    """

    chain: str
    key: str
    der: bytes

    def write(self, path: Path) -> Path:
        """Both into one PEM file, as Kafka's ssl.keystore.location has them."""
        path.write_text(self.key + self.chain)
        return path


class Authority:
    """A self-signed certificate authority.

    Attributes:
        pem: its certificate.
    """

    def __init__(self, name: str = "CN=Test CA") -> None:
        self._name = subject(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = self._builder(self._name, self._key.public_key(), expired=False)
        builder = builder.add_extension(constraints, critical=True).add_extension(usage, critical=True)
        self.pem = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()

    def issue(
        self,
        name: x509.Name | str,
        *,
        uris: tuple[str, ...] = (),
        expired: bool = False,
        days: int = 1,
        password: str | None = None,
    ) -> Issued:
        """For a server on loopback, or a client, valid for ``days``; ``password`` encrypts the key."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.IPAddress(ipaddress.ip_address("::1")),
            *map(x509.UniformResourceIdentifier, uris),
        ]
        certificate = (
            self._builder(
                subject(name) if isinstance(name, str) else name, key.public_key(), expired=expired, days=days
            )
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        return Issued(
            certificate.public_bytes(serialization.Encoding.PEM).decode(),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
            ).decode(),
            certificate.public_bytes(serialization.Encoding.DER),
        )

    def _builder(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, *, expired: bool, days: int = 1
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * _DAY)
            .not_valid_after(now - _DAY if expired else now + days * _DAY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        )
