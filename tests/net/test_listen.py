import re
import socket
from collections.abc import Iterator

import pytest

from toolgauge.model.errors import StartError
from toolgauge.net.listen import check_endpoints, close_all, listen


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
    with pytest.raises(StartError, match=r"cannot resolve the host of endpoint `no\.such\.host\.invalid:4317`: \w+"):
        listen("no.such.host.invalid:4317")


def test_all_endpoints_that_cannot_be_had_are_one_error_with_settings_to_copy(taken_port: int):
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = server.getsockname()[1]
        endpoints = {"grpc": f"127.0.0.1:{taken_port}", "http": f"127.0.0.1:{other}", "admin": "127.0.0.1:0"}
        with pytest.raises(StartError) as caught:
            check_endpoints(endpoints)
    assert caught.value.message.splitlines() == [
        "2 endpoints cannot be had",
        f"  cannot listen on `127.0.0.1:{taken_port}`: the port is in use (`grpc`)",
        f"  cannot listen on `127.0.0.1:{other}`: the port is in use (`http`)",
    ]
    hint = re.fullmatch(
        r"stop the other process, or choose another port: `--set grpc=(\S+) --set http=(\S+)`", caught.value.hint or ""
    )
    assert hint is not None
    check_endpoints({"grpc": hint[1], "http": hint[2]})


def test_endpoints_that_can_be_had_are_left_free():
    sockets = listen("127.0.0.1:0")
    port = sockets[0].getsockname()[1]
    close_all(sockets)
    check_endpoints({"grpc": f"127.0.0.1:{port}"})
    close_all(listen(f"127.0.0.1:{port}"))
