"""Checks of the Markdown pages."""
import re
from pathlib import PurePosixPath

RUNNABLE = ("c", "cpp", "cmake", "python", "sh")
TRIED_PAGES = ("README.md", "docs/c.md")  # whose blocks a test runs


def pages(tree):
    return [path for path in tree.paths if path.endswith(".md")]


def check_links(tree):
    """Every relative link leads to a file, and to a heading in it where it names one."""
    for path in pages(tree):
        for number, line in enumerate(prose(tree.text(path)), 1):
            for target in re.findall(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)", line):
                if not re.match(r"[a-z]+:", target):
                    file_name, _, anchor = target.partition("#")
                    yield from faults_of_link(tree, path, number, file_name, anchor)


def faults_of_link(tree, path, number, file_name, anchor):
    place = (tree.root / path).parent / file_name if file_name else tree.root / path
    if not place.exists():
        yield path, number, f"the link to {file_name} leads nowhere"
    elif anchor and place.suffix == ".md" and anchor not in anchors(place.read_text(encoding="utf-8")):
        yield path, number, f"{file_name or PurePosixPath(path).name} has no heading #{anchor}"


def prose(text):
    """The lines of a page, with code blocks and code spans emptied."""
    fence = None
    for line in text.split("\n"):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (fence is None or mark[1].startswith(fence)):
            fence = mark[1] if fence is None else None
            yield ""
        else:
            yield "" if fence else re.sub(r"`[^`]*`", "``", line)


def anchors(text):
    """The anchors of a page's headings, as GitHub and others make them."""
    found = set()
    fenced = False
    for line in text.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if heading and not fenced:
            words = re.sub(r"[^\w\s-]", "", heading[1].lower())
            anchor = re.sub(r"\s", "-", words.strip())
            numbered = anchor
            count = 0
            while numbered in found:
                count += 1
                numbered = f"{anchor}-{count}"
            found.add(numbered)
    return found


def check_readme_snippets(tree):
    """Every block of code in README.md and docs/c.md says its language, and the name under which a test runs it."""
    for page in TRIED_PAGES:
        if page in tree.paths:
            yield from faults_of_snippets(page, tree.text(page).split("\n"))


def faults_of_snippets(page, lines):
    fenced = False
    for number, line in enumerate(lines, 1):
        fence = re.match(r"```(\w*)", line)
        if not fence:
            continue
        fenced = not fenced
        if fenced and not fence[1]:
            yield page, number, "a block of code without its language (text, if nothing else)"
        if fenced and fence[1] in RUNNABLE and not re.match(r"<!-- test: \S+ -->$", lines[number - 2].strip()):
            yield page, number, "no line `<!-- test: file name -->` above this block, so no test can run it"
