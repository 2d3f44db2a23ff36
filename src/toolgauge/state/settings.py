"""The section `state`."""

from toolgauge.settings import FileName, Section


class StateSettings(Section):
    """What outlives the process. Without a directory nothing does."""

    directory: FileName | None = None
