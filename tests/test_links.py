"""Links between the pages, and into the checkout, lead somewhere."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.markdown_blocks import PAGES, ROOT, anchors, links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_of_a_page_leads_somewhere(page):
    dead = []
    for link in links(page):
        parts = urlsplit(link)
        if parts.scheme:  # of the world outside, which no test asks
            continue
        target = page.parent / unquote(parts.path) if parts.path else page
        if not target.exists() or (parts.fragment and parts.fragment not in anchors(target)):
            dead.append(link)
    assert not dead


def test_anchors_are_those_of_github(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# One: `two`, 3.5 (x)\n\n```bash\n# no heading\n```\n\n## Why\n\n## Why\n")
    assert anchors(page) == {"one-two-35-x", "why", "why-1"}


def test_links_in_code_are_none(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("[a](b.md) `[c](d.md)`\n\n```text\n[e](f.md)\n```\n\n![g\nh](i.png)\n")
    assert links(page) == ["b.md", "i.png"]
