"""The lines of the user's code that add to a variable: found in the source, by the variable's name and where it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fitroom.leaks import source
from fitroom.leaks.places import Place
from fitroom.leaks.source import ADDS, EMPTIES, SETS, Alias, Line

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
) -> list[Place]:
    """The lines that add to something, likeliest first.

    Args:
        names: variables, attributes or keys on the way to it, the nearest first.
        files: where to look.
        scope: whose the outermost name is; None where that is not known.
        ranks: which kinds of lines will do.
    """
    known, read = tuple(names), tuple(dict.fromkeys(files))
    for rank in ranks:
        found = _matching(known, read, rank, scope)
        meant = [line for line in found if _is_meant(line, known, scope)]
        if rank == ADDS and not meant:
            meant = _by_other_names(known, read, _FAR)
        if meant or found:
            return list(dict.fromkeys(line.place for line in meant or found))
    return []


def tying(names: Iterable[str], files: Iterable[str]) -> list[Place]:
    """The lines that set one of `names` to something that comes back, likeliest first."""
    read = tuple(dict.fromkeys(files))
    found = [line for name in names for line in _all(read) if name in line.path and line.rank != EMPTIES]
    found.sort(key=lambda line: not line.ties)
    return list(dict.fromkeys(line.place for line in found))


def is_bounded(names: Iterable[str], files: Iterable[str]) -> bool:
    """Whether the source keeps something below a length."""
    nearest = next(iter(names), "")
    return any(nearest in source.read(file).bounded for file in dict.fromkeys(files))


def _all(files: tuple[str, ...]) -> list[Line]:
    return [line for file in files for line in source.read(file).lines]


def _matching(names: tuple[str, ...], files: tuple[str, ...], rank: int, scope: Scope | None) -> list[Line]:
    """The lines of a rank that have one of the names, those with more of them first."""
    found = [line for line in _all(files) if line.rank == rank and any(name in names for name in line.path)]

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


def _by_other_names(names: tuple[str, ...], files: tuple[str, ...], far: int) -> list[Line]:
    """The lines that add to it by another name: a variable, an attribute, a parameter of a function."""
    found: list[Line] = []
    for alias in _aliases(names, files) if far else ():
        name = alias.name or ""
        if name == names[0] and not alias.owners:
            continue
        inner = Scope(alias.owners[-1:]) if alias.owners else None
        meant = [line for line in _matching((name,), files, ADDS, inner) if _is_meant(line, (name,), inner)]
        meant = meant if inner is not None else [line for line in meant if not line.is_bare]
        found += meant or _by_other_names((name,), files, far - 1)
    return found


def _aliases(names: tuple[str, ...], files: tuple[str, ...]) -> list[Alias]:
    """The other names for something, those for more of the way to it first."""
    sources = [source.read(file) for file in files]
    parameters = [known for one in sources for known in one.parameters]
    found = []
    for alias in (alias for one in sources for alias in one.aliases if alias.of[:1] == names[:1]):
        if alias.name is not None:
            found.append(alias)
            continue
        for function, known in parameters:
            if function == alias.call:
                name = alias.at if isinstance(alias.at, str) else next(iter(known[alias.at : alias.at + 1]), None)
                if name in known:
                    found.append(Alias(name, alias.of, (function,)))
    return sorted(found, key=lambda alias: -len(set(alias.of) & set(names)))
