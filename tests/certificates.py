"""Certificates of a throw-away authority, in files."""

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True, kw_only=True)
class Certificates:
    """An authority, a server at `localhost` and a client."""

    authority: trustme.CA
    ca_file: Path
    server_cert: Path
    server_key: Path
    client_cert: Path
    client_key: Path

    def renew_server(self) -> bytes:
        """Write another certificate for the server; return it."""
        return _write(self.authority.issue_cert("localhost", "127.0.0.1"), self.server_cert, self.server_key)


def certificates(folder: Path) -> Certificates:
    """Make them."""
    authority = trustme.CA()
    made = Certificates(
        authority=authority,
        ca_file=folder / "ca.pem",
        server_cert=folder / "server.pem",
        server_key=folder / "server.key",
        client_cert=folder / "client.pem",
        client_key=folder / "client.key",
    )
    authority.cert_pem.write_to_path(made.ca_file)
    made.renew_server()
    _write(authority.issue_cert("a-client"), made.client_cert, made.client_key)
    return made


def _write(leaf: trustme.LeafCert, certificate: Path, key: Path) -> bytes:
    key.write_bytes(leaf.private_key_pem.bytes())
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    certificate.write_bytes(chain)
    return leaf.cert_chain_pems[0].bytes()
