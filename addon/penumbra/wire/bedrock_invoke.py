"""Amazon Bedrock's InvokeModel with Anthropic's models: their own requests, Bedrock's own errors."""

from __future__ import annotations

from penumbra.wire.anthropic import read, spoken
from penumbra.wire.bedrock import error

__all__ = ["error", "read", "spoken"]
