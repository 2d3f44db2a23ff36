"""Reads results in the shape of MCP's `CallToolResult`, however frameworks record and wrap them.

A result counts by its shape: a failure flag or structured content beside content, a message that answers a call, or content
blocks alone. With a flag or a call's id, any member may be the wrapper as long as only plain values are beside it.
`{"isError": true}` alone is a value that a tool returned.
"""

import json
import re
from typing import cast

import msgspec

from toolgauge.model.json import Json, JsonObject, values_within
from toolgauge.model.literals import CLASS, parse_fields, parse_literal, parse_repr

# Frameworks wrap a result once or twice, and each may write it as text.
_MAX_WRAPPERS = 6
_MAX_DEPTH = 90
_MAX_TEXT = 1024 * 1024
_MAX_BLOCKS = 10_000
_PAIR = 2
# No framework writes more members beside a result.
_MAX_MEMBERS = 32

_FLAGS = frozenset(("isError", "is_error"))
_STRUCTURED = ("structuredContent", "structured_content")
_META = frozenset(("_meta", "meta", "annotations", "resultType", CLASS))
# ADK for Java repeats the texts of the blocks, decoded, in `text_output`.
_RESULT = frozenset(("content", *_FLAGS, *_STRUCTURED, "text_output", *_META))
# AutoGen has its blocks in `result`, LlamaIndex in `blocks`.
_BLOCK_LISTS = ("content", "result", "blocks")
_TEXT_TYPES = frozenset(("text", "input_text", "output_text", "TextResultContent"))
_BLOCK_TYPES = frozenset((*_TEXT_TYPES, "image", "audio", "resource", "resource_link", "ImageResultContent"))
# Semantic Kernel has `content_type`.
_TYPE_KEYS = ("type", "block_type", "content_type")
# An object with other members is a value that a tool returned.
_TEXT_BLOCK = frozenset((*_TYPE_KEYS, "text", "content", "id", "index", "cache_control", "extras", *_META))
_CALL_IDS = frozenset(("tool_use_id", "toolUseId", "tool_call_id", "toolCallId"))
_WRAPPERS = frozenset(
    (
        *("content", "data", "kwargs", "output", "raw_output", "response", "result", "return_value", "value"),
        *("functionResponse", "function_response", "toolResponse", "toolResult", "tool_response", "tool_result"),
    )
)
# Members that frameworks write beside a result that they wrap.
_BESIDE = frozenset(
    (
        *(*_CALL_IDS, *_FLAGS, *_META, "args", "arguments", "artifact", "callId", "call_id", "dynamic", "id", "input"),
        *("jsonrpc", "lc", "metadata", "name", "ok", "parts", "providerExecuted", "raw_input", "role", "status"),
        *("success", "tool", "toolName", "tool_name", "type"),
    )
)
_MARKS = frozenset((*_WRAPPERS, "blocks", *_STRUCTURED, "text"))
# Without one of these words a text holds no such result.
_WORDS = ("type", "rror", "tructured", "TextContent", "tool_", "toolUse", "toolCall", "text")
_FAILED = re.compile(r"is_?[eE]rror\W{1,12}[tT]rue|\berror(?:-text|-json)?\\{0,7}[\"']")
_BEGINS = ("{", "[", '"')
# A Python object as `repr` shows it, and its fields as pydantic prints them.
_REPR = re.compile(r"\s*(?:[A-Za-z_][\w.]{0,100}\(|[\[({\"])")
_FIELDS = re.compile(r"\s*[A-Za-z_]\w{0,100}=")


class McpResult(msgspec.Struct, frozen=True):
    """The result of an MCP tool. A text block is its text; any other block is kept as it is."""

    blocks: tuple[Json, ...]
    structured: Json = None
    failed: bool = False

    @property
    def text(self) -> str:
        """The text of its blocks."""
        texts: list[str] = []
        for block in self.blocks:
            written = block
            # No text for pictures and the like.
            if isinstance(block, dict) and _type(block) in _BLOCK_TYPES:
                resource = block.get("resource")
                written = resource.get("text") if isinstance(resource, dict) else ""
            texts.append(written if isinstance(written, str) else json.dumps(written))
        return "\n".join(filter(None, texts))


def mcp_result(value: Json) -> McpResult | None:
    """Read the result of an MCP tool; `None` for any other."""
    return _ANY.read(value, _MAX_WRAPPERS)


def failed_mcp_result(value: Json) -> McpResult | None:
    """Read the result of an MCP tool that failed; `None` for any other."""
    found = _FAILED_ONLY.read(value, _MAX_WRAPPERS)
    return found if found is not None and found.failed else None


def block_value(block: Json) -> Json:
    """Return the value in a block: text that is an object or a list is read as such."""
    resource = block.get("resource") if isinstance(block, dict) else None
    text = resource.get("text") if isinstance(resource, dict) else block
    return _decoded(text) if isinstance(text, str) else block


class _Reader(msgspec.Struct, frozen=True):
    """Reads results; `failed_only`: only texts that may hold a failure are decoded."""

    failed_only: bool

    def read(self, value: Json, room: int) -> McpResult | None:
        """Read a value that may be wrapped in `room` more levels."""
        if not value or not room:
            return None
        if type(value) is dict:
            # Settles nearly all objects.
            found = None if _MARKS.isdisjoint(value) else self._of_object(value, room)
            return found or self._of_any_wrapper(value, room)
        if type(value) is list:
            return self._of_list(value, room)
        return self._of_text(value, room) if type(value) is str else None

    def _of_text(self, text: str, room: int) -> McpResult | None:
        is_repr = _REPR.match(text) is not None
        if len(text) > _MAX_TEXT or not (is_repr or _FIELDS.match(text)):
            return None
        if self.failed_only and ("rror" not in text or _FAILED.search(text) is None):
            return None
        if not any(word in text for word in _WORDS):
            return None
        found = _decoded(text)
        if found is text:
            try:
                found = parse_repr(text) if is_repr else parse_fields(text)
            except ValueError:
                return None
        return self.read(found, room - 1)

    def _of_list(self, items: list[Json], room: int) -> McpResult | None:
        first = items[0]
        if isinstance(first, dict):
            blocks = _blocks(items)
            if blocks is not None and any(map(_is_text_block, items)):
                return self._with_inner(McpResult(blocks), room)
            # Spring AI and Strands write blocks without a type; as such count only those whose texts are JSON.
            bare = _blocks(items, has_bare=True) if first.keys() == {"text"} else None
            if bare and all(isinstance(text, str) and _decoded(text) is not text for text in bare):
                return self._with_inner(McpResult(bare), room)
            return self.read(first, room - 1) if len(items) == 1 else None
        if isinstance(first, str):
            if first.lstrip()[:1] not in _BEGINS:
                return None
            # A list of JSON texts: each is a block, or the value in a text block.
            texts = items[:_MAX_BLOCKS]
            found = [_decoded(item) if isinstance(item, str) else item for item in texts]
            if any(read is item for read, item in zip(found, texts, strict=True)):
                return None
            return self.read(found, room - 1) or McpResult(tuple(found))
        # LangChain's `content_and_artifact`: the content, and beside it a value that the model does not see.
        artifact = items[1] if len(items) == _PAIR else items
        if not isinstance(first, list) or not (artifact is None or isinstance(artifact, dict)):
            return None
        content = self.read(first, room - 1)
        return None if content is None else McpResult(content.blocks, _structured(artifact), content.failed)

    def _of_object(self, value: JsonObject, room: int) -> McpResult | None:
        status, keys = value.get("status"), value.keys() - {"status"}
        has_flag, answers = not _FLAGS.isdisjoint(value), not _CALL_IDS.isdisjoint(value)
        # Bedrock and Strands: `{"toolUseId": ..., "status": "error", "content": [{"text": ...}]}`.
        has_status = status in ("success", "error") and (answers or keys <= _RESULT)
        failed = value.get("isError") is True or value.get("is_error") is True or (has_status and status == "error")
        structured = _structured(value)
        for key in _BLOCK_LISTS:
            blocks = _blocks(value.get(key), has_bare=has_status)
            if blocks is None or not (has_flag or answers or has_status or (key == "content" and keys <= _RESULT)):
                continue
            if blocks or has_flag or structured is not None:
                return self._with_inner(McpResult(blocks, structured, failed), room)
        content = value.get("content")
        if structured is not None and content is None and keys <= _RESULT:
            return McpResult((), structured, failed)
        if _is_text_block(value):
            return self._with_inner(McpResult((_text(value),)), room)
        # Anthropic's `tool_result`, LangChain's `ToolMessage` and AutoGen's `FunctionExecutionResult` may have a text.
        if isinstance(content, str) and (answers or (has_flag and "call_id" in value)):
            return self._with_inner(McpResult((content,), _structured(value.get("artifact")), failed), room)
        # Rule: a flag beside `content` is MCP's, with a text or nothing in place of the blocks too.
        if has_flag and "content" in value and keys <= _RESULT and (content is None or isinstance(content, str)):
            return self._with_inner(McpResult((content,) if content else (), structured, failed), room)
        return _failed_output(value) or self._of_wrapper(value, room, failed=failed)

    def _of_wrapper(self, value: JsonObject, room: int, *, failed: bool) -> McpResult | None:
        """Open `{"result": ...}` and the like, where no other member may be the value of the tool."""
        wrapper = None
        for key, member in value.items():
            if member is None or key in _BESIDE:
                continue
            if key not in _WRAPPERS or wrapper is not None:
                return None
            wrapper = key
        if wrapper == "content" and isinstance(value[wrapper], list) and len(value) > 1:
            return None
        found = self.read(value[wrapper], room - 1) if wrapper is not None else None
        return found if found is None or not failed else McpResult(found.blocks, found.structured, failed=True)

    def _of_any_wrapper(self, value: JsonObject, room: int) -> McpResult | None:
        """Open `{"mcp_result": {"content": [...], "isError": true}, "server": "x"}` where no other member is an object or a list."""
        wrapped: Json = None
        for key, member in value.items() if len(value) <= _MAX_MEMBERS else ():
            if type(member) is str:
                # Settles nearly all texts.
                if "rror" not in member or member.lstrip()[:1] not in _BEGINS or not any(map(member.count, _FLAGS)):
                    continue
            elif not member or (type(member) is not dict and type(member) is not list):
                continue
            if key in _BESIDE:
                continue
            if wrapped is not None:
                return None
            wrapped = member
        if wrapped is None:
            return None
        inner = _decoded(wrapped) if isinstance(wrapped, str) else wrapped
        if isinstance(inner, list):
            inner = inner[0] if len(inner) == 1 else None
        if not isinstance(inner, dict) or room == 1:
            return None
        if "content" in inner and not (_FLAGS.isdisjoint(inner) and _CALL_IDS.isdisjoint(inner)):
            return self.read(inner, room - 1)
        return self._of_any_wrapper(inner, room - 1)

    def _with_inner(self, result: McpResult, room: int) -> McpResult:
        """Open the result in the only text block of another, as proxies of MCP servers write it."""
        only = result.blocks[0] if len(result.blocks) == 1 else None
        inner = self._of_text(only, room - 1) if isinstance(only, str) and room > 1 else None
        if inner is None:
            return result
        structured = result.structured if inner.structured is None else inner.structured
        return McpResult(inner.blocks, structured, result.failed or inner.failed)


_ANY, _FAILED_ONLY = _Reader(failed_only=False), _Reader(failed_only=True)


def _failed_output(value: JsonObject) -> McpResult | None:
    """Read the AI SDK's `{"type": "error-text", "value": ...}`."""
    if value.get("type") not in ("error-text", "error-json") or "value" not in value:
        return None
    is_whole = value.keys() <= {"type", "value", "providerOptions", "providerMetadata"}
    return McpResult((value["value"],), failed=True) if is_whole else None


def _decoded(text: str) -> Json:
    """Decode a text that is an object or a list in JSON or Python, or either as JSON text; return any other as it is."""
    if len(text) > _MAX_TEXT or text.lstrip()[:1] not in _BEGINS:
        return text
    try:
        found = cast("Json", msgspec.json.decode(text))  # typed Any by msgspec; JSON by its contract
    except (ValueError, RecursionError, MemoryError):
        try:
            found = parse_literal(text.strip())
        except ValueError:
            return text
    if isinstance(found, str):
        return text if (inner := _decoded(found)) is found else inner
    return text if values_within(found, _MAX_DEPTH) is None else found


def _structured(value: Json) -> Json:
    if not isinstance(value, dict):
        return None
    return next((value[key] for key in _STRUCTURED if value.get(key) is not None), None)


def _blocks(value: Json, *, has_bare: bool = False) -> tuple[Json, ...] | None:
    """Read a list of content blocks; `has_bare`: also Bedrock's, which have no type."""
    if not isinstance(value, list):
        return None
    found: list[Json] = []
    for item in value[:_MAX_BLOCKS]:
        if not isinstance(item, dict):
            return None
        kind = _type(item)
        if kind in _TEXT_TYPES or (has_bare and item.keys() == {"text"}):
            if not isinstance(_text(item), str):
                return None
            found.append(_text(item))
        elif has_bare and item.keys() == {"json"}:
            found.append(item["json"])
        elif kind in _BLOCK_TYPES:
            found.append(item)
        else:
            return None
    return tuple(found)


def _type(block: JsonObject) -> str:
    kind = next((block[key] for key in _TYPE_KEYS if key in block), None)
    return kind if isinstance(kind, str) else ""


def _text(block: JsonObject) -> Json:
    return block.get("text", block.get("content"))


def _is_text_block(item: Json) -> bool:
    """Return whether a value is a text block and holds nothing else."""
    if not isinstance(item, dict) or _type(item) not in _TEXT_TYPES or not isinstance(_text(item), str):
        return False
    # `repr` writes the class, which is proof enough. Empty members are ignored.
    is_class = str(item.get(CLASS)).endswith("TextContent")
    return is_class or all(key in _TEXT_BLOCK for key, member in item.items() if member or member in (False, 0))
