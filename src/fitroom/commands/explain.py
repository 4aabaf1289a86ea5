"""``fitroom explain``."""

from __future__ import annotations

import argparse
import textwrap

from fitroom.errors import UnknownCode

TYPE_CHECKING = False

if TYPE_CHECKING:
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
        pages = all_pages() if arguments.code is None else [find(arguments.code)]
        if arguments.json:
            import json

            print(json.dumps([vars(page) for page in pages], indent=2, ensure_ascii=False))
        elif arguments.code is None:
            print(_list(pages))
        else:
            print(_full(pages[0]))
        return 0


def all_pages() -> list[Page]:
    """Every page of every registry."""
    from fitroom.core.guarantees import GUARANTEES
    from fitroom.diagnosers import PAGES as CAUSES
    from fitroom.oom import PAGES
    from fitroom.remedies import PAGES as REMEDIES

    return [*GUARANTEES, *REMEDIES, *CAUSES, *PAGES]


def find(code: str) -> Page:
    """The page for `code`, in any case.

    Raises:
        UnknownCode: if no registry has it; names those that are close.
    """
    pages = {page.code.lower(): page for page in all_pages()}
    page = pages.get(code.lower())
    if page is None:
        from difflib import get_close_matches

        close = get_close_matches(code.lower(), pages, n=3)
        raise UnknownCode(
            "No such code",
            received=code,
            expected="one of " + ", ".join(pages[name].code for name in close) if close else None,
            hint="fitroom explain, which lists all codes",
        )
    return page


def _list(pages: list[Page]) -> str:
    width = max(len(page.code) for page in pages)
    lines: list[str] = []
    kind = ""
    for page in pages:
        if page.kind != kind:
            kind = page.kind
            lines += ["", f"{kind.capitalize()}:"] if lines else [f"{kind.capitalize()}:"]
        lines.append(f"  {page.code:{width}}  {page.title}")
    return "\n".join([*lines, "", "fitroom explain CODE tells one in full."])


def _full(page: Page) -> str:
    paragraphs = (textwrap.fill(part, 88) for part in page.text.split("\n\n"))
    return f"{page.code} ({page.kind}): {page.title}\n\n" + "\n\n".join(paragraphs)
