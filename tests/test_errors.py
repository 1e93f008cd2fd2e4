from __future__ import annotations

import inspect
import re

import pytest

from forerun import errors
from forerun.errors import ForerunError, MissingExtraError, UnknownNameError


def classes():
    return {
        name: found
        for name, found in vars(errors).items()
        if inspect.isclass(found) and issubclass(found, Exception)
    }


def drawn():
    """The tree in the module's docstring: name -> (parent's name, further bases)."""
    found, path = {}, []
    for line in errors.__doc__.splitlines():
        if match := re.match(r"^    ([│ ├└─]*)(\w+Error)(?: \((\w+)\))?(\s|$)", line):
            depth = len(match[1]) // 4
            path = [*path[:depth], match[2]]
            found[match[2]] = (path[depth - 1] if depth else None, match[3])
    return found


def test_the_tree_in_the_docstring_is_the_tree():
    assert set(drawn()) == set(classes())
    for name, (parent, also) in drawn().items():
        bases = [base.__name__ for base in classes()[name].__bases__]
        assert bases == ["Exception"] if parent is None else [parent, *([also] if also else [])]


def test_every_error_is_documented_and_a_forerun_error():
    for error in classes().values():
        assert issubclass(error, ForerunError)
        assert error.__doc__


def test_mistakes_of_value_are_value_errors():
    """So that code which knows nothing of forerun can catch them."""
    for name in ("OptionError", "PromptError", "LawError", "CacheError", "UnknownNameError"):
        assert issubclass(classes()[name], ValueError)
    assert issubclass(MissingExtraError, ImportError)


def test_unknown_names():
    error = UnknownNameError.of("drafter", "ngrm", ["suffix", "ngram"])
    assert isinstance(error, UnknownNameError)
    expected = "unknown drafter 'ngrm'; did you mean 'ngram'? Known: ngram, suffix."
    assert str(error) == expected
    error = UnknownNameError.of("model", "zzz", {"b": 1, "a": 2})
    assert str(error) == "unknown model 'zzz'. Known: a, b."


def test_missing_extras():
    error = MissingExtraError.of("torch", "hf", "running transformers models")
    assert str(error) == "running transformers models needs torch: pip install 'forerun[hf]'"
    with pytest.raises(ImportError):
        raise error
