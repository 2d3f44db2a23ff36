"""Checks an exporter that can deliver against its contract."""

from collections.abc import Callable, Mapping

from toolgauge.model.delivery import Signal
from toolgauge.model.ports import Exporter

# One resource each, with nothing in it.
_REQUESTS: dict[Signal, bytes] = {"traces": b"\x0a\x00", "metrics": b"\x0a\x00", "logs": b"\x0a\x00"}


async def check_exporter(make: Callable[[], Exporter]) -> None:
    """Raise `AssertionError` unless the exporter keeps its contract; `make` returns a new one each time."""
    check_settings(type(make()))
    await make().close()
    exporter = make()
    await exporter.start()
    try:
        for signal, body in _REQUESTS.items():
            await _check_sent(exporter, signal, body)
            # Requests are sent again when an acknowledgement was lost.
            await _check_sent(exporter, signal, body)
    finally:
        await exporter.close()
    await exporter.close()


async def _check_sent(exporter: Exporter, signal: Signal, body: bytes) -> None:
    kind = type(exporter).__name__
    try:
        answer: object = await exporter.send(signal, body)
    except Exception as error:
        raise AssertionError(f"exporter `{kind}` cannot send a request of {signal}: {error!r}") from error
    assert answer is None, f"`send` of exporter `{kind}` returns {answer!r}; a request that was not delivered raises"


def check_settings(plug_in: type) -> None:
    """Raise `AssertionError` unless the class has a pydantic model of its settings that refuses unknown keys."""
    settings: object = getattr(plug_in, "Settings", None)
    assert hasattr(settings, "model_validate"), f"`{plug_in.__name__}` has no pydantic model called `Settings`"
    config: Mapping[str, object] = getattr(settings, "model_config", {})
    assert config.get("extra") == "forbid", (
        f"`Settings` of `{plug_in.__name__}` take any key: set `extra` to `forbid`, or typing errors go unseen"
    )
