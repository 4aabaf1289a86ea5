"""The lines of the user's code that add to a variable: found in the source, by the variable's name and where it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fitroom.leaks import source
from fitroom.leaks.places import Place
from fitroom.leaks.source import ADDS, EMPTIES, REMOVES, SETS, Alias, Line

_FAR = 3  # names that are followed, one for another


class Scope(NamedTuple):
    """Whose a name is: of these functions or classes; a module's where there are none."""

    owners: tuple[str, ...] = ()
    is_class: bool = False

    def has(self, line: Line) -> bool:
        """Whether a line means that name, not another one's of the same name."""
        if self.owners:
            return any(one in line.within.owners for one in self.owners)
        return line.path[-1] not in line.within.own


def lines(
    names: Iterable[str],
    files: Iterable[str],
    scope: Scope | None = None,
    ranks: tuple[int, ...] = (ADDS, SETS, EMPTIES),
    others: Iterable[str] = (),
) -> list[Place]:
    """The lines that add to something, likeliest first.

    Args:
        names: variables, attributes or keys on the way to it, the nearest first.
        files: where to look first; `others` where nothing is found there.
        scope: whose the outermost name is; None where that is not known.
        ranks: which kinds of lines will do.
    """
    known, first = tuple(names), tuple(dict.fromkeys(files))
    everywhere = tuple(dict.fromkeys((*first, *others)))
    for read in dict.fromkeys((first, everywhere)):
        for rank in ranks:
            found = _matching(known, read, rank, scope)
            meant = [line for line in found if _is_meant(line, known, scope)]
            if rank == ADDS and not meant:
                meant = _by_other_names(known, everywhere, _FAR)
            if meant or found:
                return list(dict.fromkeys(line.place for line in meant or found))
    return []


def tying(names: Iterable[str], files: Iterable[str]) -> list[Place]:
    """The lines that set one of `names` to something that comes back, likeliest first."""
    read, known = tuple(dict.fromkeys(files)), tuple(names)
    setting = [line for line in _all(read, known) if line.rank in (ADDS, SETS)]
    found = [line for name in known for line in setting if name in line.path]
    found.sort(key=lambda line: not line.ties)
    return list(dict.fromkeys(line.place for line in found))


def is_bounded(names: Iterable[str], files: Iterable[str], scope: Scope | None = None, cls: str = "") -> bool:
    """Whether the source keeps something from growing for ever; `cls` is its class, where that is the user's."""
    read = tuple(dict.fromkeys(files))
    known = tuple(names)
    known = known[1:] if known[:1] == ("queue",) else known  # of queue.Queue: it is the queue that has a name
    nearest = known[:1]
    if any(set(nearest) & source.read(file, nearest).bounded for file in read):
        return True
    own = [line for line in _all(read, (cls,)) if line.rank == REMOVES and cls in line.within.owners] if cls else []
    if any(line.path[0] in ("self", "super") for line in own):
        return True
    kept_small = [line for line in _matching(nearest, read, REMOVES, scope) if line.path[:1] == nearest]
    kept_small = [line for line in kept_small if _is_meant(line, known, scope)]
    return bool(kept_small) or bool(_by_other_names(nearest, read, 1, REMOVES))


def _all(files: tuple[str, ...], words: tuple[str, ...]) -> list[Line]:
    return [line for file in files for line in source.read(file, words).lines]


def _matching(names: tuple[str, ...], files: tuple[str, ...], rank: int, scope: Scope | None) -> list[Line]:
    """The lines of a rank that have one of the names, those with more of them first."""
    found = [line for line in _all(files, names) if line.rank == rank and any(name in names for name in line.path)]

    def order(line: Line) -> tuple[bool, int, int, bool, bool]:
        matched = [number for number, name in enumerate(names) if name in line.path]
        stranger = bool(scope is not None and scope.is_class and line.is_bare)
        return not _is_meant(line, names, scope), -len(matched), matched[0], stranger, line.within.depth == 0

    return sorted(found, key=order)  # stable: the order of the source otherwise


def _is_meant(line: Line, names: tuple[str, ...], scope: Scope | None) -> bool:
    """Whether a line is where the name is known, and not of a variable that is called as an element or attribute is."""
    if line.is_bare and line.path[0] != names[-1]:
        return False
    return scope is None or scope.has(line)


def _by_other_names(names: tuple[str, ...], files: tuple[str, ...], far: int, rank: int = ADDS) -> list[Line]:
    """The lines that do so by another name: a variable, an attribute, a parameter of a function."""
    found: list[Line] = []
    for alias in _aliases(names, files) if far else ():
        name = alias.name or ""
        if name == names[0] and not alias.owners:
            continue
        inner = Scope(alias.owners[-1:]) if alias.owners else None
        meant = [line for line in _matching((name,), files, rank, inner) if _is_meant(line, (name,), inner)]
        meant = meant if inner is not None else [line for line in meant if not line.is_bare]
        found += meant or _by_other_names((name,), files, far - 1, rank)
    return found


def _aliases(names: tuple[str, ...], files: tuple[str, ...]) -> list[Alias]:
    """The other names for something, those for more of the way to it first."""
    sources = [source.read(file, names[:1]) for file in files]
    found = []
    for alias in (alias for one in sources for alias in one.aliases if alias.of[:1] == names[:1]):
        if alias.name is not None:
            found.append(alias)
            continue
        called = [source.read(file, (f"def {alias.call}", f"class {alias.call}")) for file in files if alias.call]
        for function, known in (known for one in called for known in one.parameters):
            if function == alias.call:
                name = alias.at if isinstance(alias.at, str) else next(iter(known[alias.at : alias.at + 1]), None)
                if name in known:
                    found.append(Alias(name, alias.of, (function,)))
    return sorted(found, key=lambda alias: -len(set(alias.of) & set(names)))
