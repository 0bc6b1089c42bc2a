"""The documentation: links lead somewhere, pages are short, and questions are answered within two clicks."""

import re
from functools import cache
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PARTS = ("learn", "use", "results")
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "examples" / "README.md", *PAGES]
LINK = re.compile(r"\]\(([^)\s]+)\)")
MENTION = re.compile(r"`((?:examples|docs|benchmarks|src|tests)/[\w./-]+)`")


def by_path(path):
    return str(path.relative_to(ROOT))


@cache
def shown(path):
    """A page without comments, code blocks and the lines that insert the reference of a class."""
    text = re.sub(r"<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r"^```.*?^```|^:::[^\n]*", "", text, flags=re.S | re.M)


@cache
def anchors(path):
    headings = re.findall(r"^#+ (.+)$", shown(path), flags=re.M)
    # numbered as both GitHub and mkdocs number repeated headings is not relied upon: a link names a heading that occurs once
    return {slugify(re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading), "-") for heading in headings}


def links(path):
    """What a page links to: (the link as written, the file, the anchor)."""
    for target in LINK.findall(shown(path)):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            yield target, (path.parent / file).resolve() if file else path, anchor


@pytest.mark.parametrize("page", TEXTS, ids=by_path)
def test_links_lead_somewhere(page):
    broken = [
        written
        for written, file, anchor in links(page)
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file))
    ]
    missing = [name for name in MENTION.findall(shown(page)) if not (ROOT / name).exists()]
    assert not broken + missing


def test_every_picture_is_shown():
    shown_files = {file for page in TEXTS for _, file, _ in links(page)}
    assert not [picture.name for picture in (DOCS / "images").iterdir() if picture not in shown_files]


def test_every_page_is_in_the_menu_once():
    menu = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.M)
    assert sorted(menu) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


def test_the_documentation_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90
    assert sum(len(shown(page).split()) for page in PAGES) <= 25_000


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name in PARTS], ids=by_path)
def test_a_page_opens_with_its_purpose_and_ends_with_what_to_read_next(page):
    lines = [line for line in shown(page).splitlines() if line.strip()]
    assert lines[0].startswith("# ")
    assert re.match(r"[A-Z*`\[]", lines[1]), "a sentence stands under the title"
    last = [line for line in lines if line.startswith("## ")][-1]
    assert last == "## Next"
    assert 2 <= len(LINK.findall(shown(page).rpartition("## Next")[2])) <= 6


def test_questions_are_answered_within_two_clicks():
    """The stranger's list of CONTRIBUTING.md: each answer is one click from the first page, or two."""
    listed = shown(ROOT / "CONTRIBUTING.md").partition("## Questions")[2]
    answers = re.findall(r"^\d+\. (.+\?) \[.*?\]\(([^)#]+)(?:#[^)]*)?\)", listed, flags=re.M)
    assert len(answers) >= 20
    first = DOCS / "index.md"
    once = {file for _, file, _ in links(first)} | {first}
    twice = once | {file for page in once if page.suffix == ".md" and page.exists() for _, file, _ in links(page)}
    assert not [question for question, page in answers if (ROOT / page).resolve() not in twice]
