from tests.rows import each_row
from toolgauge.net.auth import is_of_another_site, is_own_host

_THIS_MACHINE = ("localhost", "localhost:8317", "LOCALHOST:1", "127.0.0.1:8317", "127.1.2.3", "[::1]:8317", "[::1]")
_NETWORK = ("10.0.0.7:8317", "[fe80::1]", "toolgauge:8317", "192.0.2.1")
_OF_OTHERS = (
    "evil.example",
    "evil.example:8317",
    "localhost.evil.example:8317",
    "127.0.0.1.evil.example",
    "localhost.:8317",
    "user@localhost:8317",
    "localhost/x",
    "localhost:port",
    "localhost:123456",
    "[::1",
    "::1",
    "",
    ":8317",
    " ",
)


@each_row("host", ["localhost", "127.0.0.1", "::1"])
def test_on_loopback_this_machine_alone_is_ours(host: str):
    assert [header for header in _THIS_MACHINE if not is_own_host(header, host)] == []
    assert [header for header in (*_NETWORK, *_OF_OTHERS) if is_own_host(header, host)] == []


@each_row("host", ["", "0.0.0.0", "::", "192.0.2.1"])  # noqa: S104 (nothing is bound)
def test_beyond_loopback_addresses_and_names_without_a_dot_are_ours(host: str):
    assert [header for header in (*_THIS_MACHINE, *_NETWORK) if not is_own_host(header, host)] == []
    assert [header for header in _OF_OTHERS if is_own_host(header, host)] == []


def test_the_name_that_an_endpoint_listens_on_is_ours():
    assert is_own_host("Toolgauge.corp.example:9000", "toolgauge.corp.example")
    assert not is_own_host("other.corp.example:9000", "toolgauge.corp.example")


@each_row(
    ("site", "mode", "destination", "expected"),
    [
        ("same-origin", "cors", "empty", False),
        ("none", "navigate", "document", False),
        ("cross-site", "navigate", "document", False),
        ("cross-site", "navigate", "iframe", True),
        ("cross-site", "no-cors", "image", True),
        ("same-site", "cors", "empty", True),
        ("something else", "cors", "empty", True),
    ],
)
def test_pages_of_other_origins_may_link_and_nothing_else(site: str, mode: str, destination: str, *, expected: bool):
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": destination}
    assert is_of_another_site(headers) is expected


def test_what_is_no_browser_asks_for_itself():
    assert not is_of_another_site({})
