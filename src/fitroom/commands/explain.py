"""``fitroom explain``."""

from __future__ import annotations

import argparse
import textwrap

from fitroom.errors import UnknownCode

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fitroom.core import Page


class Explain:
    """Explain a guarantee, a remedy, a cause or a face of running out of memory in full.

    Without a code, lists all of them.
    """

    name = "explain"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("code", nargs="?", help="such as G1, fragmentation or bad-alloc")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print the page, or the list of pages."""
        if arguments.code is None and not arguments.json:
            print(_list())
            return 0
        pages = all_pages() if arguments.code is None else [find(arguments.code)]
        if arguments.json:
            import json

            print(json.dumps([vars(page) for page in pages], indent=2, ensure_ascii=False))
        else:
            print(_full(pages[0]))
        return 0


def all_pages() -> list[Page]:
    """Every page of every registry."""
    return [page for pages in _registries() for page in pages]


def _registries() -> Iterator[Sequence[Page]]:
    """The registries, each imported when it is asked for."""
    from fitroom.core.guarantees import GUARANTEES

    yield GUARANTEES
    from fitroom.remedies import PAGES as REMEDIES

    yield REMEDIES
    from fitroom.diagnosers import PAGES as CAUSES

    yield CAUSES
    from fitroom.leaks import PAGES as LEAKS

    yield LEAKS
    from fitroom.oom import PAGES

    yield PAGES


def find(code: str) -> Page:
    """The page for `code`, in any case.

    Raises:
        UnknownCode: if no registry has it; names those that are close.
    """
    pages: dict[str, Page] = {}
    for registry in _registries():
        pages |= {page.code.lower(): page for page in registry}
        if code.lower() in pages:
            return pages[code.lower()]
    from difflib import get_close_matches

    close = get_close_matches(code.lower(), pages, n=3)
    raise UnknownCode(
        "No such code",
        received=code,
        expected="one of " + ", ".join(pages[name].code for name in close) if close else None,
        hint="fitroom explain, which lists all codes",
    )


def _list() -> str:
    """Codes and titles. The causes' files are not read for it: there are many."""
    from fitroom.core import Cause
    from fitroom.core.guarantees import GUARANTEES
    from fitroom.oom import PAGES
    from fitroom.remedies import PAGES as REMEDIES

    causes = [(cause.value, "cause", cause.words) for cause in Cause]
    rows = [(page.code, page.kind, page.title) for page in (*GUARANTEES, *REMEDIES)] + causes
    rows += [(page.code, page.kind, page.title) for page in PAGES]
    width = max(len(code) for code, _, _ in rows)
    lines: list[str] = []
    last = ""
    for code, kind, title in rows:
        if kind != last:
            lines += ["", f"{kind.capitalize()}:"] if lines else [f"{kind.capitalize()}:"]
            last = kind
        lines.append(f"  {code:{width}}  {title}")
    return "\n".join([*lines, "", "fitroom explain CODE tells one in full."])


def _full(page: Page) -> str:
    paragraphs = (textwrap.fill(part, 88) for part in page.text.split("\n\n"))
    return f"{page.code} ({page.kind}): {page.title}\n\n" + "\n\n".join(paragraphs)
