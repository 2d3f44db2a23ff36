"""TLS of the gRPC server: gRPC asks for the certificate at each handshake, so that a renewed one is used at once."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import logging
import time

import grpc

from toolgauge.model.errors import StartError
from toolgauge.net.tls import ServerTls, WatchedFiles, server_context, server_pem

_log = logging.getLogger("toolgauge.receive")


def server_credentials(tls: ServerTls) -> grpc.ServerCredentials:
    """Make credentials from files; raise `StartError` when one cannot be used."""
    if tls.min_version != "1.2":
        raise StartError("gRPC cannot be kept from TLS 1.2", hint="leave `min_version` out for `grpc`")
    return grpc.dynamic_ssl_server_credentials(
        _certificates(tls),
        _Renewed(tls),  # pyright: ignore[reportArgumentType] - `None` is "no change" (gRPC's documentation)
        require_client_authentication=tls.client_ca_file is not None,
    )


class _Renewed:
    """Tells gRPC of certificates that have changed; called in its threads, at each handshake."""

    def __init__(self, tls: ServerTls) -> None:
        self._tls = tls
        self._watched = WatchedFiles(tls.files)
        self._looked_s = time.monotonic()

    def __call__(self) -> grpc.ServerCertificateConfiguration | None:
        now_s = time.monotonic()
        if now_s - self._looked_s < self._tls.reload_interval_s:
            return None
        self._looked_s = now_s
        if not self._watched.changed():
            return None
        try:
            return _certificates(self._tls)
        except StartError as error:
            _log.error("%s; the certificate in use stays", error.message)
            return None


def _certificates(tls: ServerTls) -> grpc.ServerCertificateConfiguration:
    # gRPC takes any text for a certificate and fails at the first handshake; OpenSSL looks at it now.
    server_context(tls)
    pem = server_pem(tls)
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.certificate)], pem.client_ca)
