"""Every error a user of forerun can meet.

    ForerunError
    ├── OptionError (ValueError)        a keyword or option has a value it cannot have
    │   ├── UnknownNameError            no model, drafter, verifier of that name
    │   └── EngineClosedError           a request came to an engine that takes no more
    ├── PromptError (ValueError)        the prompt cannot be used: empty, ids out of range, too long
    ├── LawError (ValueError)           logits make no law: NaN, +inf, nothing left after masks
    │   └── GrammarError                a request's grammar can be followed no further
    ├── CapabilityError                 a model or drafter lacks what the chosen parts need
    ├── VocabularyError (ValueError)    draft and target number their tokens differently
    ├── CacheError (ValueError)         a cache was asked to keep what it does not hold, or is full
    ├── OverloadedError                 too many requests wait already; later there may be room
    ├── RoundError                      a round broke off; names what broke it (never the request)
    ├── ModelFileError (ValueError)     a model file is corrupt, truncated, or of an unknown kind
    ├── MemoryFileError (ValueError)    a file of remembered texts is another model's, or none
    ├── FetchError                      a model could not be fetched
    ├── TemplateError (ValueError)      a chat template is missing or fails
    ├── SourceChangedError              a batch's input was changed while it was read
    ├── ReplicaError                    an engine in another process failed, or differs from others
    ├── PeerError                       a system that is measured or certified failed
    ├── NotLosslessError (AssertionError)  a sampler's law is not its target's
    ├── UndecidedError (AssertionError)    it could not be told whether it is
    ├── KeyReuseError                   a random key was used twice (never a user's fault)
    └── MissingExtraError (ImportError) an optional library is not installed; names the extra

Messages hold the offending value and the nearest right one. `assert` is for invariants only.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ForerunError(Exception):
    """Base of all errors raised on purpose by forerun."""


class OptionError(ForerunError, ValueError):
    """A keyword or option has a value it cannot have."""


class UnknownNameError(OptionError):
    """No model, drafter or verifier of that name.

    Built with `UnknownNameError.of("drafter", "ngrm", known)`, so that every such message
    lists what exists and guesses what was meant.
    """

    @classmethod
    def of(cls, kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return cls(f"unknown {kind} {name!r}{hint or '.'} Known: {', '.join(names)}.")


class EngineClosedError(OptionError):
    """The engine takes no more requests: it was closed, or it drains."""


class PromptError(ForerunError, ValueError):
    """The prompt cannot be used as it is."""


class LawError(ForerunError, ValueError):
    """Logits do not make a law: NaN, +inf, or nothing is left after the masks."""


class GrammarError(LawError):
    """A request's grammar grew too complex, or leaves no token: of its own making, no model's."""


class CapabilityError(ForerunError):
    """A model or drafter lacks what the chosen combination needs."""


class VocabularyError(ForerunError, ValueError):
    """Draft and target number their tokens differently."""


class CacheError(ForerunError, ValueError):
    """A cache was asked to keep what it does not hold, or has no room."""


class OverloadedError(ForerunError):
    """So many requests wait that no more are taken; the same one may be welcome later."""


class RoundError(ForerunError):
    """A round broke off by an error that is none of forerun's, or by an interrupt."""


class ModelFileError(ForerunError, ValueError):
    """A model file is corrupt, truncated, or of a kind that cannot be read."""


class MemoryFileError(ForerunError, ValueError):
    """A file of remembered texts cannot be used: of another vocabulary, of another kind."""


class FetchError(ForerunError):
    """A model could not be fetched; nothing was left half-written."""


class TemplateError(ForerunError, ValueError):
    """A chat template is missing or fails on these messages."""


class SourceChangedError(ForerunError):
    """The input of a batch was changed while it was read: its answers would not belong to it."""


class ReplicaError(ForerunError):
    """An engine in another process cannot be had, failed, or is not like the others."""


class PeerError(ForerunError):
    """A system that is measured or certified did not start, ended, or could not answer."""


class NotLosslessError(ForerunError, AssertionError):
    """A sampler's law is not its target's: the message says where, and how to repeat it."""


class UndecidedError(ForerunError, AssertionError):
    """Whether a sampler is lossless could not be told: the reference differs, or tokens are few."""


class KeyReuseError(ForerunError):
    """A key of the random source came twice: the output law would no longer be exact."""


class MissingExtraError(ForerunError, ImportError):
    """An optional library is not installed."""

    @classmethod
    def of(cls, library: str, extra: str, purpose: str) -> MissingExtraError:
        return cls(f"{purpose} needs {library}: pip install 'forerun[{extra}]'")
