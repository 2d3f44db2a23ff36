import socket
from collections.abc import Iterator

import pytest

from toolgauge.model.errors import StartError
from toolgauge.net.listen import close_all, listen


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_localhost_listens_on_both_families_on_one_port():
    sockets = listen("localhost:0")
    try:
        names = [sock.getsockname() for sock in sockets]
    finally:
        close_all(sockets)
    assert names[0][0] == "127.0.0.1"
    assert {name[1] for name in names} == {names[0][1]}
    if socket.has_ipv6:
        assert {name[0] for name in names} <= {"127.0.0.1", "::1"}


def test_taken_port_is_a_start_error_that_names_the_endpoint(taken_port: int):
    with pytest.raises(StartError, match="in use") as caught:
        listen(f"localhost:{taken_port}")
    assert f"`localhost:{taken_port}`" in caught.value.message


def test_unknown_host_is_a_start_error_that_names_the_endpoint():
    with pytest.raises(StartError, match=r"cannot resolve the host of endpoint `no\.such\.host\.invalid:4317`"):
        listen("no.such.host.invalid:4317")


def test_address_of_another_machine_is_a_start_error():
    with pytest.raises(StartError, match=r"cannot listen on `192\.0\.2\.1:0`"):
        listen("192.0.2.1:0")
