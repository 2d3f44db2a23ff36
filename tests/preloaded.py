"""What a process of `tests.forked` finds loaded: all commands, and all plug-ins but those that ask a judge or read CEL."""

import contextlib
import gc
import os
import pkgutil
from importlib import import_module

from toolgauge import cli, plugins
from toolgauge.model.errors import ConfigError

# As the command does before gRPC is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

for _module in pkgutil.iter_modules(cli.__path__, "toolgauge.cli."):
    import_module(_module.name)
# What commands import when they run.
for _name in (
    "config.editor_schema",
    "config.load",
    "config.tool_definitions",
    "service.workers.front",
    "web.document",
):
    import_module(f"toolgauge.{_name}")
for _group in (plugins.DIALECTS, plugins.EVALUATORS, plugins.RECEIVERS, plugins.EXPORTERS):
    for _name in plugins.names(_group):
        # One whose package is in a group that is not installed stays out.
        with contextlib.suppress(ConfigError):
            plugins.load(_group, _name)
# Else the first collection in each process would copy the memory of all that.
gc.freeze()
