"""TLS from files: certificates and trusted authorities, and whether the files have changed since.

Broken files leave the last working ones in place. `tls_cause` describes a failed connection.
"""

import ssl
from collections.abc import Iterable
from pathlib import Path

from toolgauge.model.errors import StartError
from toolgauge.net.settings import ClientTls, ServerTls
from toolgauge.settings import file_path, file_state

# Texts of OpenSSL, BoringSSL and gRPC, lower case and without punctuation, and their meaning; the first that fits counts.
_CAUSES = {
    "certificate has expired": "its certificate has expired",
    "certificate is not yet valid": "its certificate is not yet valid, or the clock here is wrong",
    "hostname": "its certificate is for another host name",
    "ip address mismatch": "its certificate is for another host name",
    "certificate in certificate chain": "its certificate is from an issuer that is not trusted: see `tls.ca_file`",
    "self signed certificate": "its certificate is self-signed and not trusted: see `tls.ca_file`",
    "issuer": "its certificate is from an issuer that is not trusted: see `tls.ca_file`",
    "unable to verify the first certificate": "its certificate is from an issuer that is not trusted: see `tls.ca_file`",
    "revoked": "its certificate is revoked",
    "certificate verify failed": "its certificate is not valid",
    "alert certificate required": "it asks for a client certificate: see `tls.cert_file`",
    "alert unknown ca": "it does not trust the client certificate",
    "alert certificate": "it does not accept the client certificate",
    "alert bad certificate": "it asks for a client certificate, or does not accept this one: see `tls.cert_file`",
    "alert handshake failure": "it shares no cipher, or asks for a client certificate: see `tls.cert_file`",
    "protocol version": "it shares no version of TLS: see `tls.min_version`",
    "unsupported protocol": "it shares no version of TLS: see `tls.min_version`",
    "wrong version number": "it does not answer in TLS: is the port right?",
    "http request": "it does not answer in TLS: is the port right?",
    "record layer failure": "it does not answer in TLS: is the port right?",
    "alpn": "it does not offer HTTP/2: is `protocol: http` meant?",
    "no application protocol": "it does not offer HTTP/2: is `protocol: http` meant?",
}
# TLS 1.3 refuses client certificates after the handshake, and names no reason.
CLOSED = "it closes the connection; if it asks for one, is a client certificate missing or refused? See `tls.cert_file`"
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class WatchedFiles:
    """Remembers when files changed last."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = tuple(files)
        self._states = [*map(file_state, self._files)]

    def changed(self) -> bool:
        """Return whether any file has changed since the last call that returned True."""
        before, self._states = self._states, [*map(file_state, self._files)]
        return self._states != before


def server_context(tls: ServerTls) -> ssl.SSLContext:
    """Make the context of an HTTP server; raise `StartError` when a file cannot be used."""
    for file in tls.files:
        read_pem(file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    # Rule: a client that speaks HTTP/2 alone, such as gRPC's, gets through the handshake, so that its first bytes show its protocol
    # and the answer to them names it; without `h2` it goes away with nothing in our log.
    context.set_alpn_protocols(["http/1.1", "h2"])
    try:
        context.load_cert_chain(file_path(tls.cert_file), file_path(tls.key_file), password=_no_password)
        if tls.client_ca_file is not None:
            # The text between the certificates is for people, in any letters.
            context.load_verify_locations(cadata=read_pem(file_path(tls.client_ca_file)).decode("ascii", "ignore"))
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:
        raise StartError(f"cannot use {_named(tls.files)} for TLS: {_reason(error)}") from error
    return context


def client_context(tls: ClientTls) -> ssl.SSLContext:
    """Make the context of an HTTP client; raise `StartError` when a file cannot be used."""
    for file in tls.files:
        read_pem(file)
    try:
        context = ssl.create_default_context(cafile=None if tls.ca_file is None else str(file_path(tls.ca_file)))
        context.minimum_version = _VERSIONS[tls.min_version]
        if tls.cert_file is not None and tls.key_file is not None:
            context.load_cert_chain(file_path(tls.cert_file), file_path(tls.key_file), password=_no_password)
    except (OSError, ValueError) as error:
        raise StartError(f"cannot use {_named(tls.files)} for TLS: {_reason(error)}") from error
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def tls_cause(message: str) -> str:
    """Describe the failure of a TLS connection by a library's message; empty without a known reason."""
    text = message.lower().replace("_", " ").replace("-", " ")
    return next((cause for words, cause in _CAUSES.items() if words in text), "")


def read_pem(file: Path) -> bytes:
    """Read a PEM file; raise `StartError` when it cannot be read or is of another kind."""
    try:
        text = file.read_bytes()
    except OSError as error:
        raise StartError(f"cannot read the TLS file `{file}`: {(error.strerror or str(error)).lower()}") from error
    if b"-----BEGIN " not in text:
        raise StartError(f"the TLS file `{file}` is not a PEM file")
    return text


def _no_password() -> str:
    # Without this, OpenSSL asks on the terminal and waits.
    raise ValueError("the key is encrypted, which is not supported")


def _named(files: Iterable[Path]) -> str:
    return ", ".join(f"`{file}`" for file in files)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not a valid certificate or key").lower().replace("_", " ")
    if isinstance(error, OSError):  # gone since it was read: files that are being renewed come and go
        return (error.strerror or str(error)).lower()
    return str(error)
