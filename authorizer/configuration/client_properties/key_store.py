"""Java key stores as PEM: PKCS12 by cryptography, JKS by its published layout, PEM unchanged.

JKS is sun.security.provider.JavaKeyStore: a header, entries of certificates and protected keys, and a SHA-1
of the password and the content. The one Python library for it needs a C compiler for a cipher that JKS never
uses, and has had no release since 2020. A store of type JKS may hold PKCS12 and the other way round, as in
Java, so the content decides.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)

_JKS: Final = 0xFEEDFEED
_JCEKS: Final = b"\xce\xce\xce\xce"
_PEM: Final = b"-----BEGIN "
_DER_SEQUENCE: Final = 0x30
_KEY_ENTRY: Final = 1
_CERTIFICATE_ENTRY: Final = 2
_DIGEST_BYTES: Final = hashlib.sha1(usedforsecurity=False).digest_size
#: Between the password and the content in the digest of a store (JavaKeyStore.getPreKeyedHash).
_WHITENER: Final = b"Mighty Aphrodite"
_CONVERT: Final = (
    "Convert it: keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
)


class KeyStoreError(ValueError):
    """A store cannot be read; the message says why and has no secret."""


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The content of a store, in PEM.

    Attributes:
        authorities: trusted certificates; empty if there are none.
        chain: certificates of the key, its own first; empty if there is no key.
        key: the unencrypted private key (PKCS8); empty if there is none.
    """

    authorities: str = ""
    chain: str = ""
    key: str = field(default="", repr=False)


def read_key_store(path: str, store_password: str | None, key_password: str | None) -> KeyStore:
    """Read a store of any of the three types; the first key is taken, as Java takes any.

    KeyStoreError: the file cannot be read, the password is wrong or missing, or the type is another one.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise KeyStoreError(f"{path}: {error.strerror}") from error
    try:
        if _PEM in content:
            return pem_store(content.decode("utf-8", "replace"), key_password)
        if content.startswith(struct.pack(">I", _JKS)):
            return _read_jks(content, store_password, key_password)
        if content[:1] == bytes((_DER_SEQUENCE,)):
            return _read_pkcs12(content, store_password)
    except KeyStoreError as error:
        raise KeyStoreError(f"{path}: {error}") from error
    except (ValueError, IndexError, struct.error, UnsupportedAlgorithm) as error:
        raise KeyStoreError(f"{path}: the file is damaged or truncated") from error
    kind = "a JCEKS store" if content.startswith(_JCEKS) else "not a PEM, PKCS12 or JKS file"
    raise KeyStoreError(f"{path} is {kind}. {_CONVERT.format(path=path)}")


def pem_store(text: str, key_password: str | None) -> KeyStore:
    """Certificates and at most one private key in PEM; an encrypted key is decrypted."""
    blocks = _pem_blocks(text)
    try:
        certificates = _certificates_pem(
            [x509.load_pem_x509_certificate(each.encode()) for each in blocks if "CERTIFICATE-----" in each]
        )
    except ValueError as error:
        raise KeyStoreError("a certificate is damaged") from error
    keys = [block for block in blocks if "PRIVATE KEY-----" in block]
    if not keys:
        return KeyStore(authorities=certificates)
    password = key_password.encode() if key_password and "ENCRYPTED" in keys[0] else None
    try:
        key = load_pem_private_key(keys[0].encode(), password)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        reason = "its password is missing" if password is None else "its password is wrong"
        raise KeyStoreError(f"the private key cannot be read: {reason}, or it is damaged") from error
    return KeyStore(chain=certificates, key=_key_pem(key))


def _pem_blocks(text: str) -> list[str]:
    blocks: list[str] = []
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("-----BEGIN "):
            lines = []
        lines.append(line)
        if line.startswith("-----END "):
            blocks.append("\n".join(lines) + "\n")
    return blocks


def _read_pkcs12(content: bytes, password: str | None) -> KeyStore:
    try:
        store = pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except ValueError as error:
        raise KeyStoreError(_wrong_password(password)) from error
    entries = store.additional_certs if store.cert is None else [store.cert, *store.additional_certs]
    certificates = _certificates_pem([entry.certificate for entry in entries])
    if store.key is None:
        return KeyStore(authorities=certificates)
    return KeyStore(chain=certificates, key=_key_pem(store.key))


def _read_jks(content: bytes, store_password: str | None, key_password: str | None) -> KeyStore:
    if store_password is not None:
        keyed = store_password.encode("utf-16-be") + _WHITENER + content[:-_DIGEST_BYTES]
        digest = hashlib.sha1(keyed, usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, content[-_DIGEST_BYTES:]):
            raise KeyStoreError(_wrong_password(store_password))
    reader = _JksReader(content[:-_DIGEST_BYTES])
    _, version, count = reader.numbers(">III")
    authorities: list[x509.Certificate] = []
    for _ in range(count):
        (tag,) = reader.numbers(">I")
        reader.text()  # the alias
        reader.numbers(">Q")  # the time of creation
        if tag == _KEY_ENTRY:
            protected = reader.block()
            (length,) = reader.numbers(">I")
            chain = [reader.certificate(version) for _ in range(length)]
            return KeyStore(
                chain=_certificates_pem(chain),
                key=_unprotected(protected, key_password or store_password),
            )
        if tag != _CERTIFICATE_ENTRY:
            raise KeyStoreError(f"entry type {tag} is unknown")
        authorities.append(reader.certificate(version))
    return KeyStore(authorities=_certificates_pem(authorities))


class _JksReader:
    """Reads java.io.DataOutput's forms; raises struct.error at the end of the content."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def numbers(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self._content, self._at)
        self._at += struct.calcsize(form)
        return found

    def block(self) -> bytes:
        (length,) = self.numbers(">I")
        return self._bytes(length)

    def text(self) -> str:
        (length,) = self.numbers(">H")
        return self._bytes(length).decode("utf-8", "replace")

    def certificate(self, version: int) -> x509.Certificate:
        if version > 1:
            self.text()  # the type, X.509
        try:
            return x509.load_der_x509_certificate(self.block())
        except x509.InvalidVersion as error:  # no ValueError
            raise ValueError(str(error)) from error

    def _bytes(self, length: int) -> bytes:
        if length > len(self._content) - self._at:
            raise struct.error
        self._at += length
        return self._content[self._at - length : self._at]


def _unprotected(protected: bytes, password: str | None) -> str:
    """The private key of a JKS entry (sun.security.provider.KeyProtector), in PEM."""
    if password is None:
        raise KeyStoreError(_wrong_password(None))
    data = _last_octet_string(protected)
    salt, encrypted, check = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    secret = password.encode("utf-16-be")
    block, stream = salt, b""
    while len(stream) < len(encrypted):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    plain = bytes(left ^ right for left, right in zip(encrypted, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain, usedforsecurity=False).digest(), check):
        raise KeyStoreError("the password of the key is wrong")
    return _key_pem(load_der_private_key(plain, None))


def _last_octet_string(encrypted_key_info: bytes) -> bytes:
    """The encrypted data of an EncryptedPrivateKeyInfo: SEQUENCE { SEQUENCE { ... }, OCTET STRING }."""
    content, _ = _der_element(encrypted_key_info)
    _, rest = _der_element(content)
    data, _ = _der_element(rest)
    return data


def _der_element(der: bytes) -> tuple[bytes, bytes]:
    """The content of the first element, and what follows it."""
    length, start = der[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start], "big")
    return der[start : start + length], der[start + length :]


def _wrong_password(password: str | None) -> str:
    return "the password is missing" if password is None else "the password is wrong, or the file is damaged"


def _certificates_pem(certificates: Sequence[x509.Certificate]) -> str:
    return "".join(each.public_bytes(Encoding.PEM).decode("ascii") for each in certificates)


def _key_pem(key: PrivateKeyTypes) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
