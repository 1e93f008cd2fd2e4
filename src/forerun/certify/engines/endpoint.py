"""Any OpenAI-compatible endpoint: `POST /v1/completions` with the prompt as token ids.

Each sample is a request with a seed of its own; those of a call are sent side by side, so that the
server batches them. Their ids come back, in the order they are looked for, as

    choices[0].token_ids                         forerun, and vLLM with return_token_ids
    choices[0].logprobs.tokens, "token_id:17"    vLLM with return_tokens_as_token_ids
    choices[0].logprobs.content[i].id            llama.cpp's server
    choices[0].logprobs.tokens, as texts         by the reference's tokenizer, where no two ids read
                                                 alike

The body has the sampling keywords under the names that vLLM and forerun share. Speculation off is
another body (`off_body`) or another server (`off_url`); forerun's own knows `speculative: false`.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from forerun.certify.engines.base import (
    CONTROLS,
    NOTHING,
    Tokens,
    Told,
    Traits,
    check_controls,
    sample_seed,
)
from forerun.certify.engines.endpoint_laws import laws
from forerun.errors import CapabilityError, OptionError, PeerError

_SHOW_ENDS = ("forerun", "vllm")  # whose ids hold the one that ended the text
_AGAIN = (408, 409, 425, 429)  # of the 4xx, those that are no fault of the request
_BANNED = -1e3  # as a bias; more than that some servers refuse


class EndpointEngine:
    """An endpoint.

    url           up to /v1
    model         the name it is asked for; None: the first that the server lists
    end_ids       ids that end a text, of the model: one that the server leaves out is put back
    find_token    a token's text -> its id or None, for servers that give texts alone
    body          further fields of every request; `off_body` those with speculation off
    parallel      requests at a time
    top_logprobs  above 0: so many of the likeliest tokens are asked for at each place, and told
    """

    def __init__(
        self,
        url: str,
        model: str | None,
        *,
        end_ids: frozenset[int] = frozenset(),
        find_token: Callable[[str], int | None] | None = None,
        body: Mapping[str, Any] | None = None,
        off_body: Mapping[str, Any] | None = None,
        off_url: str | None = None,
        key: str | None = None,
        parallel: int = 8,
        timeout: float = 120.0,
        seeds: bool = False,
        precision: Any = "float32",
        controls: frozenset[str] = CONTROLS,
        top_logprobs: int = 0,
    ) -> None:
        for one in (url, off_url):
            if one is not None and not one.startswith(("http://", "https://")):
                raise OptionError(f"an endpoint's address begins with http:// or https://: {one!r}")
        self._url, self._off_url, self._top = url.rstrip("/"), off_url, top_logprobs
        self._end_ids, self._find = end_ids, find_token
        self._body = dict(body or {})
        self._key, self._timeout = key, timeout
        self._mode = "token_ids"  # until an answer lacks them
        first, self._owner = self._listed()
        self._model = model or first
        own = self._owner == "forerun"
        self._off_body = {"speculative": False} if off_body is None and own else off_body
        self._pool = ThreadPoolExecutor(parallel, thread_name_prefix="endpoint")
        self.name = f"endpoint {self._url} ({self._model})"
        self.traits = Traits(
            controls=controls,
            drafts=own,
            switches=off_url is not None or self._off_body is not None,
            seeds=seeds or own,
            parallel=parallel,
            precision=precision,
        )

    def sample(
        self, prompt_ids: Sequence[int], n: int, sampling: Mapping[str, Any], seed: int
    ) -> list[Tokens]:
        return [tokens for tokens, _ in self.tell(prompt_ids, n, sampling, seed)]

    def tell(
        self, prompt_ids: Sequence[int], n: int, sampling: Mapping[str, Any], seed: int
    ) -> list[tuple[Tokens, Told]]:
        check_controls(self, sampling)
        asked = [(prompt_ids, sampling, sample_seed(seed, i)) for i in range(n)]
        return list(self._pool.map(lambda one: self._one(*one), asked))

    def _one(
        self, prompt_ids: Sequence[int], sampling: Mapping[str, Any], seed: int
    ) -> tuple[Tokens, Told]:
        off = sampling.get("num_draft") == 0
        url = self._off_url.rstrip("/") if off and self._off_url is not None else self._url
        body = self._fields(prompt_ids, sampling, seed, off)
        choice = self._ask(f"{url}/completions", body)["choices"][0]
        if not self._top and "return_token_ids" in body and choice.get("token_ids") is None:
            self._mode = "logprobs"  # requests under way find out by themselves
            body |= self._wanted()
            choice = self._ask(f"{url}/completions", body)["choices"][0]
        tokens, reason = self._ids(choice), choice.get("finish_reason")
        if not self._top:
            return self._whole(tokens, reason, sampling), NOTHING
        told = laws(choice, self.name)
        end = self._end(tokens, reason, sampling)
        whole = tuple(tokens) if end is not None else self._whole(tokens, reason, sampling)
        if len(told) != len(whole):
            raise CapabilityError(
                f"{self.name} gives laws of {len(told)} places for {len(whole)} tokens: as a "
                "reference it must tell that of the token which ends a text too"
            )
        return whole, Told(laws=tuple(told), end=end)

    def _fields(
        self, prompt_ids: Sequence[int], sampling: Mapping[str, Any], seed: int, off: bool
    ) -> dict[str, Any]:
        named = {
            name: sampling[name]
            for name in (
                "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty",
                "frequency_penalty", "min_tokens", "max_tokens",
            )
            if name in sampling
        }  # fmt: skip
        bias = {str(i): float(b) for i, b in sampling.get("logit_bias", {}).items()}
        bias |= {str(i): _BANNED for i in sampling.get("banned", ())}
        if bias:
            named["logit_bias"] = bias
        if stops := sampling.get("stop_ids"):
            named["stop_token_ids"] = sorted(stops)
        if sampling.get("num_draft") and self.traits.drafts:
            named["num_draft"] = sampling["num_draft"]
        extra = self._off_body if off and self._off_url is None else None
        return {
            "model": self._model,
            "prompt": list(prompt_ids),
            "seed": seed,
            "temperature": 1.0,
            **named,
            **self._wanted(),
            **self._body,
            **(extra or {}),
        }

    def _end(self, tokens: Sequence[int], reason: Any, sampling: Mapping[str, Any]) -> int | None:
        """The last id, where the server says that it ended the text and nobody else knew."""
        known = self._end_ids | set(sampling.get("stop_ids", ()))
        if reason != "stop" or not tokens or tokens[-1] in known or self._end_ids:
            return None
        if self._owner not in _SHOW_ENDS:
            raise CapabilityError(
                f"{self.name} ended a text, and by which ids it does is not known: say so with "
                "--option 'end_ids=[2]'"
            )
        return tokens[-1]

    def _wanted(self) -> dict[str, Any]:
        if self._top:
            return {
                "return_token_ids": True,
                "return_tokens_as_token_ids": True,
                "logprobs": self._top,
            }
        if self._mode == "token_ids":
            return {"return_token_ids": True}
        return {"logprobs": 1, "return_tokens_as_token_ids": True}

    def _ids(self, choice: Mapping[str, Any]) -> list[int]:
        if (given := choice.get("token_ids")) is not None:
            return [int(i) for i in given]
        logprobs = choice.get("logprobs") or {}
        content = logprobs.get("content") or []
        if content and all("id" in entry for entry in content):
            return [int(entry["id"]) for entry in content]
        texts = logprobs.get("tokens") or [entry["token"] for entry in content]
        if not texts and choice.get("text"):
            raise CapabilityError(
                f"{self.name} gives no token ids: neither token_ids nor logprobs came back"
            )
        return [self._id(text) for text in texts]

    def _id(self, text: str) -> int:
        head, _, number = text.partition("token_id:")
        if not head and number.isdecimal():
            return int(number)
        found = self._find(text) if self._find is not None else None
        if found is None:
            raise CapabilityError(
                f"{self.name} gives tokens as texts, and {text!r} is not one id alone: use a "
                "server that knows return_token_ids or return_tokens_as_token_ids"
            )
        return found

    def _whole(self, tokens: list[int], reason: Any, sampling: Mapping[str, Any]) -> Tokens:
        """With the end token, where the server left it out."""
        ends = self._end_ids | set(sampling.get("stop_ids", ()))
        if reason != "stop" or (tokens and tokens[-1] in ends):
            return tuple(tokens)
        if len(ends) != 1:
            raise CapabilityError(
                f"{self.name} leaves out the token that ended a text, and it may be any of "
                f"{sorted(ends)}"
            )
        return (*tokens, *ends)

    def _listed(self) -> tuple[str | None, str | None]:
        """The first model's name, and who owns it."""
        try:
            first = self._ask(f"{self._url}/models", None)["data"][0]
            return first.get("id"), str(first.get("owned_by"))
        except PeerError as error:
            if isinstance(error.__cause__, urllib.error.HTTPError):
                return None, None  # it is there, and lists no models
            raise PeerError(f"nobody answers there: {error}") from error
        except (CapabilityError, LookupError, TypeError, AttributeError):
            return None, None

    def tokenize(self, text: str) -> tuple[int, ...]:
        """Ids of a prompt, by `POST /tokenize` as vLLM, llama.cpp and forerun have it."""
        root = self._url.removesuffix("/v1")
        body = {"model": self._model, "prompt": text, "content": text, "add_special": True}
        found = self._ask(f"{root}/tokenize", body).get("tokens")
        if not isinstance(found, list) or not found:
            raise CapabilityError(f"{root}/tokenize gave no tokens")
        return tuple(int(i) for i in found)

    def _ask(self, url: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(url, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                found: dict[str, Any] = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")[:300]
            what = f"{url} answered {error.code}: {said}"
            if 400 <= error.code < 500 and error.code not in _AGAIN:
                raise CapabilityError(what) from error
            raise PeerError(what) from error
        except (OSError, ValueError) as error:
            raise PeerError(f"{url}: {error}") from error
        return found

    def describe(self) -> dict[str, Any]:
        return {
            "engine": "endpoint",
            "url": self._url,
            "model": self._model,
            "owned_by": self._owner,
            "body": self._body,
            "off": self._off_url or self._off_body,
        }

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
