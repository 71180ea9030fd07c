"""Equivalent spellings of one path."""

SPELLINGS = [
    "/v1/messages", "//v1/messages", "/v1//messages", "/v1/messages/", "/v1/messages///", "/v1/./messages",
    "/v1/x/../messages", "/../v1/messages", "/v1/%6Dessages", "/v1%2Fmessages", "/v1/%256Dessages",
    "/v1/messages%3Fbeta=true", "/v1/messages;version=2", "/v1;a=b/messages;", "/V1/Messages",
    "/v1\\messages", "/v1/messages%20", "/v1/messages#x", "/v1/messages?beta=true&path=/x",
    "/v1/%2e%2E/v1/messages",
]  # fmt: skip
