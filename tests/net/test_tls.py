"""Files of certificates that come and go while they are looked at."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.certificates import Certificates, certificates
from toolgauge.model.errors import StartError
from toolgauge.net.settings import ClientTls, ServerTls
from toolgauge.net.tls import client_context, server_context


def fleeting(file: Path) -> str:
    """Have a file be gone as soon as it was read, as one that is replaced by another one."""
    text = file.read_bytes()
    file.unlink()
    os.mkfifo(file)

    def write() -> None:
        # Readers see the end of a pipe when it is closed, and then its name is gone.
        with file.open("wb") as pipe:
            pipe.write(text)
            file.unlink()

    threading.Thread(target=write, daemon=True).start()
    return str(file)


def server(made: Certificates) -> object:
    return server_context(ServerTls(cert_file=fleeting(made.server_cert), key_file=str(made.server_key)))


def client(made: Certificates) -> object:
    return client_context(ClientTls(ca_file=fleeting(made.ca_file)))


def client_with_certificate(made: Certificates) -> object:
    return client_context(ClientTls(cert_file=fleeting(made.client_cert), key_file=str(made.client_key)))


@pytest.mark.parametrize("use", [server, client, client_with_certificate])
def test_a_file_that_is_gone_before_it_is_used_is_as_unusable_as_one_that_was_never_there(
    tmp_path: Path, use: Callable[[Certificates], object]
):
    with pytest.raises(StartError, match="for TLS: no such file or directory"):
        use(certificates(tmp_path))
