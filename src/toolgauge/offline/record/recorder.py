"""A service that receives OTLP as `toolgauge serve` does, writes it to a file, and reads it to show what it is.

Reading may lag behind, and what it cannot keep up with is written without being read.
"""

from collections.abc import Callable
from functools import partial

from toolgauge.config.model import Config, Exporters, Receivers
from toolgauge.export.recording_file import RecordingFile
from toolgauge.offline.record.recognized import Recognized
from toolgauge.pipeline.stages import ignore_split
from toolgauge.service.pipeline_factory import make_pipeline
from toolgauge.service.serve import make_service
from toolgauge.service.service import Service
from toolgauge.state.settings import StateSettings


def make_recorder(
    config: Config, recording: RecordingFile, on_first: Callable[[str], None]
) -> tuple[Service, Recognized]:
    """Make a service that scores nothing and sends nothing on, and what it recognizes."""
    recognized = Recognized(on_first)
    alone = config.model_copy(
        update={
            "receivers": Receivers(otlp=config.receivers.otlp),
            "exporters": Exporters(prometheus=None),
            "annotate": "off",
            "watch": config.watch.model_copy(update={"enabled": False}),
            "state": StateSettings(),
            "admin": None,
        }
    )
    service = make_service(
        alone,
        (),
        observing=lambda _sink: recognized,
        recording=recording,
        on_accepted=recognized.accept,
        put_together=partial(make_pipeline, make_recognizer=recognized.recognizer, on_split=ignore_split),
    )
    return service, recognized
