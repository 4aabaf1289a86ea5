"""Who holds a container: the name under which the user's code knows it."""

from __future__ import annotations

import gc
import sys
from collections import deque
from types import CellType, FrameType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, NamedTuple

from fitroom.leaks import variables
from fitroom.leaks.adding import Scope
from fitroom.leaks.places import Place, file_of, is_users_class, is_users_code, is_users_file
from fitroom.leaks.scene import Scene

_HIGHEST = 5  # steps from a container to a name
_MANY = 40  # referrers of one thing: more is no way to go


class Holder(NamedTuple):
    """A name of the user's for something.

    Attributes:
        name: as they would write it, such as ``self.losses``.
        keys: the names to look for in the source, the nearest first.
        files: where to look first.
        scope: whose the outermost name is.
        bound: how much it can hold at most, where that is set; None where nothing is.
        place: the line, where it is known without a look at the source.
    """

    name: str
    keys: tuple[str, ...]
    files: tuple[str, ...]
    scope: Scope | None = None
    bound: int | None = None
    place: Place | None = None

    def bounded_by(self, bound: int | None) -> Holder:
        """The same, where something on the way to it has a bound."""
        return self._replace(bound=self.bound or bound)


def find(thing: Any, scene: Scene, ignored: tuple[Any, ...] = ()) -> Holder | None:
    """The user's name for `thing`, or for what it is in; None where it is not theirs.

    Args:
        thing: usually a container.
        scene: what the user's code has names for.
        ignored: who holds it for this search only.
    """
    level: list[Any] = [thing]
    keys: list[tuple[str, ...]] = [()]
    bound: int | None = None
    seen = {id(one) for one in (thing, level, keys, *ignored)}
    for _ in range(_HIGHEST):
        for one, names in zip(level, keys, strict=True):
            found = _variable(one, names, scene)
            if found is not None:
                return found.bounded_by(bound)
        referrers = gc.get_referrers(*level)  # one walk through the heap
        above: list[Any] = []
        above_keys: list[tuple[str, ...]] = []
        seen |= {id(referrers), id(above), id(above_keys)}
        for referrer in referrers:
            if id(referrer) in seen or isinstance(referrer, FrameType) or _is_ours(referrer):
                continue
            seen.add(id(referrer))
            one, names = _held(referrer, level, keys)
            bound = bound or _bound(referrer)
            found = _owner(referrer, one, names)
            if found is not None:
                return found.bounded_by(bound)
            if len(above) < _MANY and not isinstance(referrer, ModuleType | type):
                above.append(referrer)
                above_keys.append(names)
        if not above:
            return None
        level, keys = above, above_keys
        seen |= {id(level), id(keys)}
    return None


def _held(referrer: Any, level: list[Any], keys: list[tuple[str, ...]]) -> tuple[Any, tuple[str, ...]]:
    """Which of the things it is that a referrer holds, and the names on the way there, nearest first."""
    inner = referrer if isinstance(referrer, dict) else getattr(referrer, "__dict__", None)
    if isinstance(inner, dict):
        named = {id(value): name for name, value in list(inner.items()) if isinstance(name, str)}
        for one, names in zip(level, keys, strict=True):
            if id(one) in named:
                return one, (*names, named[id(one)])
            if one is inner:  # an object, reached through the dictionary of its attributes
                return one, names
    if isinstance(referrer, list | tuple | set | deque):
        for one, names in zip(level, keys, strict=True):
            if any(one is other for other in referrer):
                return one, names
    if len(level) == 1:
        return level[0], keys[0]
    for one, names in zip(level, keys, strict=True):
        if any(one is other for other in gc.get_referents(referrer)):
            return one, names
    return level[0], keys[0]


def _variable(thing: Any, names: tuple[str, ...], scene: Scene) -> Holder | None:
    """A variable of a module, or of a function under way."""
    found = scene.variable(thing)
    if found is None:
        return None
    own = Scope((found.function,)) if found.function else Scope()
    return Holder(_path(found.name, names), (*names, found.name), (found.file,), own)


def _bound(owner: Any) -> int | None:
    """How much an object lets in, where it says so: a queue.Queue, a cache of cachetools'."""
    inner = owner if isinstance(owner, dict) else getattr(owner, "__dict__", None)
    sizes = [size for name, size in list(inner.items()) if str(name).endswith("maxsize")] if type(inner) is dict else []
    return next((size for size in sizes if isinstance(size, int) and size > 0), None)


def _path(name: str, names: tuple[str, ...]) -> str:
    return ".".join((name, *reversed(names)))


def _owner(referrer: Any, thing: Any, names: tuple[str, ...]) -> Holder | None:
    """Who holds `thing`, if that is an object or a function of the user's."""
    if type(referrer).__name__ == "_lru_cache_wrapper":
        code = getattr(getattr(referrer, "__wrapped__", None), "__code__", None)
        if code is not None and is_users_code(code):
            name = referrer.__wrapped__.__name__
            place = Place(code.co_filename, code.co_firstlineno, name)
            bound = referrer.cache_info().maxsize
            return Holder(f"the cache of {name}()", (name,), (code.co_filename,), None, bound, place)
        return None
    if isinstance(referrer, CellType):
        return _closure(referrer, names)
    if isinstance(referrer, GeneratorType):
        return _waiting(referrer, thing, names)
    if isinstance(referrer, FunctionType | MethodType | ModuleType | type):
        return _of_definition(referrer, thing, names)
    if is_users_class(type(referrer)):
        path = names or _slot(referrer, thing)
        file = _file_of(type(referrer))
        if path:
            return Holder(
                _path(type(referrer).__name__, path), path, (file,) if file else (), _of_class(type(referrer))
            )
    return None


def _of_definition(referrer: Any, thing: Any, names: tuple[str, ...]) -> Holder | None:
    """A default of a function's, or an attribute of a class."""
    if isinstance(referrer, FunctionType) and is_users_code(referrer.__code__):
        defaults = [*(referrer.__defaults__ or ()), *(referrer.__kwdefaults__ or {}).values()]
        if any(one is thing for one in defaults):  # def step(x, kept=[]): …
            own = referrer.__code__.co_varnames[: referrer.__code__.co_argcount]
            name = next((n for n, v in zip(reversed(own), reversed(defaults), strict=False) if v is thing), "")
            where, scope = referrer.__code__.co_filename, Scope((referrer.__name__,))
            return Holder(name or referrer.__name__, (*names, name), (where,), scope)
    if isinstance(referrer, type) and is_users_class(referrer):
        attribute = next((name for name, value in vars(referrer).items() if value is thing), None)
        path = names if attribute is None else (*names, attribute)
        if path and path[-1] in vars(referrer):  # it may have been reached through the dictionary of the class
            file = _file_of(referrer)
            scope, files = _of_class(referrer), (file,) if file else ()
            return Holder(_path(referrer.__name__, path), path, files, scope)
    return None


def _closure(cell: CellType, names: tuple[str, ...]) -> Holder | None:
    """A variable of a function that an inner function, of the user's, uses."""
    for cells in gc.get_referrers(cell):
        if not isinstance(cells, tuple):
            continue
        for function in gc.get_referrers(cells):
            if (
                isinstance(function, FunctionType)
                and function.__closure__ is cells
                and is_users_code(function.__code__)
            ):
                at = next(number for number, one in enumerate(cells) if one is cell)
                name = function.__code__.co_freevars[at]
                scope = Scope(tuple(one for one in function.__qualname__.split(".") if one != "<locals>"))
                return Holder(_path(name, names), (*names, name), (function.__code__.co_filename,), scope)
    return None


def _waiting(generator: GeneratorType[Any, Any, Any], thing: Any, names: tuple[str, ...]) -> Holder | None:
    """A variable of a generator of the user's, which waits to be asked for more."""
    code = generator.gi_code
    if generator.gi_frame is None or not is_users_code(code):
        return None
    own = variables.of(generator.gi_frame)
    name = next((name for name, value in own.items() if value is thing), None)
    return Holder(_path(name, names), (*names, name), (code.co_filename,), Scope((code.co_name,))) if name else None


def _of_class(cls: type) -> Scope:
    return Scope(tuple(one.__name__ for one in cls.__mro__ if is_users_class(one)), is_class=True)


def _slot(owner: Any, thing: Any) -> tuple[str, ...]:
    for cls in type(owner).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if getattr(owner, name, None) is thing:
                return (str(name),)
    return ()


def _file_of(cls: type) -> str | None:
    file = file_of(sys.modules.get(cls.__module__))
    return file if file is not None and is_users_file(file) else None


def _is_ours(referrer: Any) -> bool:
    """Whether a referrer is a part of fitroom."""
    return type(referrer).__module__.startswith("fitroom.")
