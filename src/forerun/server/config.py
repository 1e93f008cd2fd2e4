"""What a server is started with, checked once."""

from __future__ import annotations

from dataclasses import dataclass

from forerun.errors import OptionError

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Raises OptionError for values that make no sense."""

    models: tuple[str, ...]  # names the model answers to; the first is the one it gives
    api_keys: tuple[str, ...] = ()  # none: everybody may ask
    metrics_keys: tuple[str, ...] = ()  # for /metrics; none, and api_keys: nobody sees it
    hosts: tuple[str, ...] = ()  # names it answers to; none, or "*": any
    cors_origins: tuple[str, ...] = ()  # web pages of these may ask from a browser; "*": all
    max_body: int = 4 * MIB  # bytes of a request's body
    max_bodies: int = 256 * MIB  # bytes of the bodies of all requests that are being answered
    max_tokenize: int = 256 * KIB  # letters of a text for /tokenize, ids for /detokenize
    body_timeout: float = 30.0  # seconds for headers, a body, a part of an answer to get through
    timeout: float = 600.0  # seconds of a request, waiting included
    max_choices: int = 1024  # prompts times n of a request
    max_logprobs: int = 200_000  # tokens of all choices times 1 + the likeliest shown with each
    default_max_tokens: int = 1024  # of a chat answer whose client says nothing
    pacing: float | None = None  # seconds between the chunks of a stream; None: as tokens come
    log_prompts: bool = False  # prompts, answers and messages of errors in the log

    def __post_init__(self) -> None:
        if not self.models or not all(self.models):
            raise OptionError("a served model needs a name of at least one letter")
        for key in (*self.api_keys, *self.metrics_keys):
            if not key or not key.isascii() or not key.isprintable() or " " in key:
                raise OptionError(
                    "an API key is printable ASCII without spaces, at least one letter"
                )
        for origin in self.cors_origins:
            if origin != "*" and "://" not in origin:
                raise OptionError(
                    f"cors_origin is '*' or scheme://host[:port], such as https://example.org, "
                    f"not {origin!r}"
                )
        for name in (
            "max_body", "max_bodies", "max_tokenize", "max_choices", "max_logprobs",
            "default_max_tokens",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1, not {getattr(self, name)!r}")
        for name in ("body_timeout", "timeout", "pacing"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise OptionError(f"{name} must be a number of seconds above 0, not {value!r}")
