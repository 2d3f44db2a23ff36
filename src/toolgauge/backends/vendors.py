"""Makes the destination of a backend: the only place where a vendor's name becomes code."""

from toolgauge.backends import phoenix
from toolgauge.backends.score_destination import ScoreDestination
from toolgauge.backends.score_sender import ScoreSender, Write
from toolgauge.backends.settings import BackendSettings, PhoenixSettings
from toolgauge.export.settings import checked_headers
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import Ledger


def backend_destination(
    name: str, settings: BackendSettings, metrics: SelfMetrics, user_agent: str, ledger: Ledger | None
) -> ScoreDestination:
    """Make the destination. Raise `ConfigError` when a header cannot be sent."""
    headers = dict(checked_headers({**settings.authorization, **settings.headers}, name))
    sender = ScoreSender(settings, _write(settings), {**headers, "User-Agent": user_agent})
    return ScoreDestination(name, settings, metrics, sender, ledger)


def _write(settings: BackendSettings) -> Write:
    match settings:
        case PhoenixSettings():
            return phoenix.write
        case _:
            raise NotImplementedError(settings.vendor)
