"""Host and path of each API, and a reader of its errors."""

from typing import Any

PATHS = {
    "anthropic-messages": "/v1/messages",
    "anthropic-count-tokens": "/v1/messages/count_tokens",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "openai-responses-compact": "/v1/responses/compact",
    "openai-responses-count": "/v1/responses/input_tokens",
    "gemini": "/v1beta/models/g:streamGenerateContent",
    "gemini-count": "/v1beta/models/g:countTokens",
    "gemini-code-assist": "/v1internal:generateContent",
    "gemini-code-assist-count": "/v1internal:countTokens",
    "vertex-anthropic": "/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict",
    "vertex-anthropic-count": "/v1/publishers/anthropic/models/count-tokens:rawPredict",
    "bedrock-converse": "/model/m/converse",
    "bedrock-invoke": "/model/m/invoke",
    "ollama-chat": "/api/chat",
}


def said(api: str, status: int, body: Any) -> str:
    """Return the message of an error, and assert that it has the API's shape."""
    if api in ("anthropic-messages", "anthropic-count-tokens", "vertex-anthropic", "vertex-anthropic-count"):
        kinds = {400: "invalid_request_error", 413: "request_too_large", 500: "api_error"}
        assert body == {
            "type": "error",
            "error": {"type": kinds[status], "message": body["error"]["message"]},
        }
        return str(body["error"]["message"])
    if api.startswith("openai"):
        kind = "server_error" if status == 500 else "invalid_request_error"
        assert body["error"].keys() == {"message", "type", "param", "code"}
        assert body["error"]["type"] == kind
        return str(body["error"]["message"])
    if api.startswith("gemini"):
        assert body["error"]["code"] == status
        assert body["error"]["status"] == ("INTERNAL" if status == 500 else "INVALID_ARGUMENT")
        return str(body["error"]["message"])
    if api.startswith("bedrock"):
        assert body["__type"] == ("InternalServerException" if status == 500 else "ValidationException")
        return str(body["message"])
    assert body.keys() == {"error"}
    return str(body["error"])
