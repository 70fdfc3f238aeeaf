"""Reads the project's files for the tidy checks: a tree of files, C++ without comments and strings, its functions.

This is no C++ parser. It knows enough to tell namespaces, classes, functions and initialisers apart by the text before
their opening brace, which is all that the checks need; where it is unsure it says nothing rather than something wrong.
"""
import os
import re
from dataclasses import dataclass
from pathlib import Path

CODE_DIRECTORIES = ("include", "src", "tools", "tests", "python", "torch_backend", "examples")
CPP_ENDINGS = (".cpp", ".hpp", ".h")


@dataclass
class Function:
    name: str
    line: int
    last_line: int
    parameters: list


@dataclass
class Statement:
    """Something that ends with a semicolon outside functions; `scope` is namespace or class."""
    text: str
    line: int
    scope: str


class Tree:
    """The files of one project; everything is read once."""

    def __init__(self, root):
        self.root = Path(root)
        self.texts, self.codes, self.scans = {}, {}, {}
        self.paths = sorted(self._find())

    def _find(self):
        for path in self.root.iterdir():
            if path.is_file():
                yield path.name
        for directory in CODE_DIRECTORIES + ("docs", "cmake", ".ci"):
            for parent, directories, names in os.walk(self.root / directory):
                directories[:] = [name for name in directories if name not in ("__pycache__", "build")]
                yield from (os.path.relpath(os.path.join(parent, name), self.root) for name in names)

    def cpp(self, *starts):
        """C++ files below any of the given directories, all of them if none is given."""
        return [path for path in self.paths
                if path.endswith(CPP_ENDINGS) and path.startswith(starts or CODE_DIRECTORIES)]

    def text(self, path):
        if path not in self.texts:
            self.texts[path] = (self.root / path).read_text(encoding="utf-8", errors="replace")
        return self.texts[path]

    def code(self, path):
        if path not in self.codes:
            self.codes[path] = without_comments_and_strings(self.text(path))
        return self.codes[path]

    def scan(self, path):
        """(functions, statements) of a C++ file."""
        if path not in self.scans:
            self.scans[path] = scan(without_preprocessor(self.code(path)))
        return self.scans[path]

    def find(self, path, pattern):
        """(line, match) of every place in the code where the pattern occurs."""
        code = self.code(path)
        for match in re.finditer(pattern, code, re.MULTILINE):
            yield line_of(code, match.start()), match

    def includes(self, path):
        """(line, name, quoted) of every #include."""
        code = self.code(path).split("\n")
        for number, line in enumerate(self.text(path).split("\n")):
            match = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', line)
            if match and "#" in code[number]:
                yield number + 1, match[1] or match[2], match[1] is not None


def line_of(text, position):
    return text.count("\n", 0, position) + 1


NOT_CODE = re.compile(
    r"""//(?:\\\n|[^\n])*
      | /\*.*?\*/
      | R"([^()\\\s]{0,16})\(.*?\)\1"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'""", re.VERBOSE | re.DOTALL)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def without_comments_and_strings(text):
    """The same text, line for line, with spaces in place of comments and literals."""
    return NOT_CODE.sub(lambda match: blank(match[0]), text)


def without_preprocessor(code):
    """Drops directives and every branch but the first of an #if, so that braces balance."""
    lines, skipping, continued = [], [], False
    for line in code.split("\n"):
        directive = re.match(r"\s*#\s*(\w+)", line)
        is_directive = continued or directive is not None
        if directive and not continued:
            if directive[1] in ("if", "ifdef", "ifndef"):
                skipping.append(False)
            elif directive[1] in ("else", "elif") and skipping:
                skipping[-1] = True
            elif directive[1] == "endif" and skipping:
                skipping.pop()
        continued = is_directive and line.endswith("\\")
        lines.append("" if is_directive or any(skipping) else line)
    return "\n".join(lines)


def closing(code, start):
    """The position of the bracket that closes the one at `start`; the end of the text if none does."""
    opening, depth = code[start], 0
    ending = {"(": ")", "{": "}", "[": "]", "<": ">"}[opening]
    for position in range(start, len(code)):
        if code[position] == opening:
            depth += 1
        elif code[position] == ending and not (ending == ">" and code[position - 1] == "-"):
            depth -= 1
            if depth == 0:
                return position
    return len(code) - 1


def without_labels(head):
    return re.sub(r"\b(?:public|private|protected)\s*:(?!:)", lambda match: blank(match[0]), head)


def without_prefixes(head):
    """A declaration without template<…>, attributes, access labels, alignas(…) and the like; equally long."""
    def erase(start, end):
        return head[:start] + blank(head[start:end + 1]) + head[end + 1:]

    head = without_labels(head)
    while match := re.search(r"\[\[", head):
        head = erase(match.start(), closing(head, match.start()))
    while match := re.search(r"\btemplate\s*<", head):
        head = erase(match.start(), closing(head, match.end() - 1))
    while match := re.search(r"\b(?:alignas|decltype|explicit|requires|__attribute__)\s*\(", head):
        head = erase(match.start(), closing(head, match.end() - 1))
    return head


def parameter_list(head):
    """Where the parameters of a function with this head open; None if it is not the head of a function."""
    operator = re.search(r"\boperator\s*(?:\(\s*\)|[^\w\s(]+|[\w:<>*&\s]+?)\s*\(", head)
    if operator:
        return operator.end() - 1
    depth = 0
    for position, character in enumerate(head):
        if character == "<":
            depth += 1
        elif character == ">" and head[position - 1] != "-":
            depth -= 1
        elif character == "=" and depth <= 0:
            return None
        elif character == "(" and depth <= 0:
            return position if re.search(r"[\w>]\s*$", head[:position]) else None
    return None


def split_parameters(text):
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "([{<":
            depth += 1
        elif character in ")]}" or (character == ">" and text[position - 1] != "-"):
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part and part != "void"]


def kind_of_brace(head):
    """What the brace after this text opens: namespace, class, function, or value (an initialiser, an enum)."""
    if re.match(r"\s*(?:inline\s+)?namespace\b", head) or head.strip() == "extern":
        return "namespace"
    if "(" not in head and re.match(r"\s*(?:(?:typedef|static|inline|const)\s+)*(?:class|struct|union)\b", head):
        return "value" if "=" in head else "class"
    opens = parameter_list(head)
    if opens is None:
        return "value"
    after = head[closing(head, opens) + 1:]
    has_initialisers = re.match(r"\s*(?:noexcept\s*(?:\(.*?\)\s*)?)?:(?!:)", after)
    return "value" if has_initialisers and re.search(r"[\w>]\s*$", after) else "function"


def scan(code):
    functions, statements, scopes = [], [], ["namespace"]
    position = head_start = 0
    while position < len(code):
        character = code[position]
        if character == "(":
            position = closing(code, position)
        elif character == ";":
            text = without_prefixes(code[head_start:position])
            if text.strip():
                line = line_of(code, head_start + len(text) - len(text.lstrip()))
                statements.append(Statement(text.strip(), line, scopes[-1]))
            head_start = position + 1
        elif character == "}":
            scopes = scopes[:-1] or ["namespace"]
            head_start = position + 1
        elif character == "{":
            head = without_prefixes(code[head_start:position])
            kind = kind_of_brace(head)
            if kind in ("namespace", "class"):
                scopes.append(kind)
                head_start = position + 1
            else:
                position = closing(code, position)
            if kind == "function":
                functions.append(function_at(code, head, head_start, position))
                head_start = position + 1
        position += 1
    return functions, statements


def function_at(code, head, start, end):
    opens = parameter_list(head)
    whole = without_labels(code[start:start + len(head)])
    name = re.search(r"(operator\s*\W+|[\w~:]+)\s*$", head[:opens])
    return Function(
        name=name[1].strip() if name else "?",
        line=line_of(code, start + len(whole) - len(whole.lstrip())),
        last_line=line_of(code, end),
        parameters=split_parameters(head[opens + 1:closing(head, opens)]))
