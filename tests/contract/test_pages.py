from __future__ import annotations

import pytest

from fitroom.commands.explain import all_pages, find
from fitroom.core import Page

PAGES = all_pages()


def test_codes_are_unique_in_any_case() -> None:
    codes = [page.code.lower() for page in PAGES]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.code)
def test_a_page_says_something(page: Page) -> None:
    assert page.title
    assert len(page.text) > 40
    assert find(page.code.upper()) == page


def test_all_guarantees_have_a_page() -> None:
    assert [page.code for page in PAGES if page.kind == "guarantee"] == [f"G{n}" for n in range(1, 10)]


def test_the_list_has_every_page(capsys: pytest.CaptureFixture[str]) -> None:
    from fitroom.commands import main

    main(["explain"])
    listed = capsys.readouterr().out
    for page in PAGES:
        assert f"  {page.code} " in listed
        assert page.title in listed
