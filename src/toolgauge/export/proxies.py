"""The proxy on the way to a destination, as the environment names it: `http_proxy`, `https_proxy`, `no_proxy`.

The HTTP client would read it by itself, but only together with the passwords in `.netrc`, which nobody meant for us.
"""

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from toolgauge.model.errors import StartError


def is_on_this_machine(address: str) -> bool:
    """Tell whether the `host:port` is a loopback address."""
    host = address.rpartition(":")[0].strip("[]").lower()
    return host in ("localhost", "::1") or host.startswith("127.")


def proxy_of(url: str) -> str | None:
    """Return the URL of the proxy for this URL; `None` when there is none. This machine is asked directly.

    Raise `StartError` for a proxy that is not asked over HTTP: going around it is not ours to decide.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_on_this_machine(f"{host}:{parts.port or 0}"):
        return None
    if proxy_bypass(f"{host}:{parts.port}" if parts.port else host):
        return None
    proxies = getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if named is None:
        return None
    proxy = named if "://" in named else f"http://{named}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise StartError(
            f"the proxy that the environment names for `{parts.scheme}` is not an HTTP proxy",
            hint=f"name another one, or `{host}` in `no_proxy`",
        )
    return proxy
