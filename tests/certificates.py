"""Certificates of a throw-away authority, in files."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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

    def renew_server(self, host: str = "localhost", lasts_days: tuple[int, int] = (-1, 365)) -> bytes:
        """Write another certificate for the server; return it."""
        begins, ends = (datetime.now(UTC) + timedelta(days=days) for days in lasts_days)
        leaf = self.authority.issue_cert(host, "127.0.0.1", not_before=begins, not_after=ends)
        return _write(leaf, self.server_cert, self.server_key)

    def sign_itself(self) -> None:
        """Give the server the certificate of an authority of its own."""
        own = trustme.CA()
        own.private_key_pem.write_to_path(self.server_key)
        own.cert_pem.write_to_path(self.server_cert)


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
