"""Files of certificates that come and go while they are looked at."""

from collections.abc import Callable
from pathlib import Path, PosixPath

import pytest

from tests.certificates import Certificates, certificates
from toolgauge.model.errors import StartError
from toolgauge.net.tls import ClientTls, ServerTls, client_context, server_context


class Fleeting(PosixPath):
    """A file that is replaced by another one just after it was read, and for a moment is not there."""

    def read_bytes(self) -> bytes:
        """Read it for the last time."""
        text = super().read_bytes()
        self.unlink()
        return text


def server(made: Certificates) -> object:
    return server_context(ServerTls(cert_file=Fleeting(made.server_cert), key_file=made.server_key))


def client(made: Certificates) -> object:
    return client_context(ClientTls(ca_file=Fleeting(made.ca_file)))


def client_with_certificate(made: Certificates) -> object:
    return client_context(ClientTls(cert_file=Fleeting(made.client_cert), key_file=made.client_key))


@pytest.mark.parametrize("use", [server, client, client_with_certificate])
def test_a_file_that_is_gone_before_it_is_used_is_as_unusable_as_one_that_was_never_there(
    tmp_path: Path, use: Callable[[Certificates], object]
):
    with pytest.raises(StartError, match="for TLS: no such file or directory"):
        use(certificates(tmp_path))
