"""scikit-learn's parameter convention without importing scikit-learn: `get_params`, `set_params`, `clone`, `repr`."""

from __future__ import annotations

import inspect
from typing import Any, Self

from capture_cp.base.checks import known_name


class Params:
    """Base class with the methods that `sklearn.clone` needs, for constructors that store their arguments unchanged."""

    @classmethod
    def _names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor arguments by name; nested ones as `outer__inner` when `deep`."""
        params: dict[str, Any] = {}
        for name in self._names():
            value = params[name] = getattr(self, name)
            if deep and isinstance(value, Params):
                params |= {f"{name}__{inner}": part for inner, part in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments in place; `outer__inner=value` reaches nested objects."""
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            known_name(f"parameter of {type(self).__name__}", outer, self._names())
            if inner:
                getattr(self, outer).set_params(**{inner: value})
            else:
                setattr(self, outer, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if not _same(value, defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Params) and _all_same(self, other)

    __hash__ = None  # type: ignore[assignment]


def _all_same(one: Params, other: Params) -> bool:
    theirs = other.get_params(deep=False)
    return all(_same(value, theirs[name]) for name, value in one.get_params(deep=False).items())


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))
