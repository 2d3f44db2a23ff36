"""Who writes spans: a library in a service, its version, and the programming language of its process.

Advice names variables and options, and those of one language are of no use in another. OpenTelemetry's SDKs record their language
with the resource; where it is absent (applications often make a resource of their own), the form of the scope's name shows it:
npm packages, Go modules, Java packages, Python modules and .NET namespaces are written differently.
"""

import re
from dataclasses import dataclass

# `telemetry.sdk.language` has a closed list of values; a page in a browser runs what a server in JavaScript runs.
PYTHON, JAVASCRIPT, JAVA, GO, DOTNET, PHP = "python", "nodejs", "java", "go", "dotnet", "php"
_SAME = {"webjs": JAVASCRIPT}

_FORMS = (
    (re.compile(r"@[\w.-]+/|(?:.+[./-])?(?:typescript|javascript|nodejs)$"), JAVASCRIPT),
    (re.compile(r"io\.opentelemetry\.contrib\.php\."), PHP),
    (re.compile(r"(?:io\.opentelemetry|io\.micrometer|org\.springframework|com\.arize|dev\.langchain4j)\."), JAVA),
    # The path of a module: a host, then a slash.
    (re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+/"), GO),
    (re.compile(r"[A-Z]\w*(?:\.[A-Z]\w*)+$"), DOTNET),
    (re.compile(r"(?:opentelemetry|openinference|openlit|strands|traceloop|uipath|semantic_kernel|litellm)\."), PYTHON),
    (
        re.compile(r"(?:pydantic[-_]ai|agent_framework|autogen|haystack|litellm|logfire|fastmcp|mcp-python-sdk)\b"),
        PYTHON,
    ),
    # The tracers of the AI SDK, of Strands for TypeScript, and of the Gemini CLI.
    (re.compile(r"(?:ai|gen_ai|strands-agents|gemini-cli)$"), JAVASCRIPT),
)
_LONGEST_SCOPE = 256
_RELEASE = re.compile(r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Producer:
    """A library (`scope`, `version`) in a service, and the language of its process. Each is "" where it is not known."""

    service: str
    scope: str
    version: str
    language: str = ""

    @property
    def release(self) -> tuple[int, ...] | None:
        """The numbers of the version, up to three; `None` where there are none."""
        found = _RELEASE.match(self.version)
        return None if found is None else tuple(int(number) for number in found.groups() if number is not None)


def producer_of(service: str | None, scope: str, version: str, sdk_language: str) -> Producer:
    """Name a producer; `sdk_language` is the resource's `telemetry.sdk.language`, "" where it has none."""
    language = _SAME.get(sdk_language, sdk_language) or _language_of(scope[:_LONGEST_SCOPE])
    return Producer(service=service or "", scope=scope, version=version, language=language)


def _language_of(scope: str) -> str:
    return next((language for form, language in _FORMS if form.match(scope)), "")
