"""Every public function has a row in docs/functions.md. The page itself is held to its table by functions_test.cpp."""
import re
from dataclasses import dataclass
from fnmatch import fnmatch

from tidy.source import (closing, kind_of_brace, line_of, parameter_list, split_parameters, without_preprocessor,
                         without_prefixes)

PAGE = "docs/functions.md"
HEADERS = "include/unisono/"
VOCABULARY = ("group.hpp", "settings.hpp", "status.hpp", "tensor.hpp", "types.hpp")  # values, and what is asked of them
DIALECTS = ("distributed.hpp", "comm_func.hpp")
HANDLES = ("WorkPtr", "CommHandlePtr", "TensorAndHandle", "TensorsAndHandle", "Tensor")
LETTERS = ("isend", "irecv", "recv", "batch_isend_irecv")
ADVICE = "tests/functions_rows_*.cpp has none; add it and call functions_test --write"


@dataclass
class Declared:
    name: str  # of a class "Store::set", of a constructor "FileStore"
    parameters: list
    returns: str
    line: int
    is_inline: bool


@dataclass
class Row:
    header: str
    name: str
    parameters: str
    tests: list
    line: int


def check_functions_have_rows(tree):
    """Every public function has a row in docs/functions.md, and every row has a function and a test that calls it."""
    if PAGE not in tree.paths:
        return
    rows = list(page_rows(tree.text(PAGE)))
    for path in tree.cpp(HEADERS):
        header = path.removeprefix(HEADERS)
        if header in VOCABULARY:
            continue
        declared = list(public_functions(tree.code(path)))
        own = {row.name: row for row in rows if row.header == header}
        for function in declared:
            if function.name not in own:
                yield path, function.line, f"{function.name} has no row in {PAGE}: {ADVICE}"
            elif is_collective(header, function) and "collectives_test" not in own[function.name].tests:
                yield path, function.line, f"{function.name} is a collective, and not in the live matrix: give it a form"
        for row in own.values():
            alike = [function for function in declared if function.name == row.name]
            if not alike:
                yield PAGE, row.line, f"{header} declares no {row.name}"
            elif row.parameters not in [", ".join(function.parameters) for function in alike]:
                yield PAGE, row.line, f"{row.name} is declared with ({', '.join(alike[0].parameters)})"
    for row in rows:
        if HEADERS + row.header not in tree.paths:
            yield PAGE, row.line, f"there is no header {row.header}"
        for test in row.tests:
            if not calls(tree, test, row.name):
                yield PAGE, row.line, f"{test} does not call {row.name}"


def is_collective(header, function):
    """Those that hand out tensors or works, but for letters and other names of what is declared above them."""
    if header not in DIALECTS or function.is_inline or function.name in LETTERS:
        return False
    return function.returns in HANDLES or function.name == "barrier"


def page_rows(text):
    """The rows below the headings that name a header."""
    header = None
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#"):
            heading = re.fullmatch(r"#+ unisono/(\S+)", line)
            header = heading[1] if heading else None
        row = re.match(r"\| `([\w:]+)\((.*?)\)` \|", line)
        if header and row:
            parameters = re.sub(r"\{.*?\}", "options", row[2])
            yield Row(header, row[1], parameters, re.findall(r"\[(\w+)\]\(", line), number)


def calls(tree, test, name):
    """Whether a test calls a function: in its own file, its rows, its C program, or in the forms of the live matrix."""
    stem = test.removesuffix("_test")
    places = [f"tests/{test}.cpp", f"tests/{stem}_rows_*.cpp", f"tests/{stem}/*.c"]
    if test == "collectives_test":
        places.append("tests/support/forms_*.cpp")
    function = name.split("::")[-1]
    # A constructor may stand before the name of its object, and a function may be passed on by its name.
    called = rf"\b{function}\b(?:>?\s*\(|\s+\w+\s*[({{;]|[,;]|\s:)"
    return any(re.search(called, tree.code(path) if path.endswith("pp") else tree.text(path))
               for path in tree.paths for place in places if fnmatch(path, place))


def public_functions(code):
    """What a header declares for its users: no overrides, no operators, no destructors, nothing private."""
    code = without_preprocessor(code)
    scopes = [("", "public")]  # class or "", and the access there
    position = head_start = 0
    while position < len(code):
        character = code[position]
        if character == "(":
            position = closing(code, position)
        elif character in ";{}":
            head = code[head_start:position]
            for label in re.findall(r"\b(public|private|protected)\s*:(?!:)", head):
                scopes[-1] = (scopes[-1][0], label)
            kind = kind_of_brace(without_prefixes(head)) if character == "{" else None
            if kind in ("namespace", "class"):
                scopes.append(inner_scope(head, kind, scopes[-1]))
            elif character == "{":
                position = closing(code, position)
            elif character == "}":
                scopes = scopes[:-1] or [("", "public")]
            if kind == "function" or character == ";":
                found = function_in(head, scopes[-1], line_of(code, head_start + len(head) - len(head.lstrip())))
                if found:
                    found.is_inline = kind == "function" and not scopes[-1][0]
                    yield found
            if kind != "value":
                head_start = position + 1
        position += 1


def inner_scope(head, kind, outer):
    if kind == "namespace":
        return ("", "public")
    name = re.search(r"\b(class|struct|union)\s+(\w+)", head)
    access = "private" if outer[1] != "public" or not name or name[1] == "class" else "public"
    return (name[2] if name else "?", access)


def function_in(head, scope, line):
    """The function that this text declares, if it is one for users."""
    text = without_prefixes(head)
    opens = parameter_list(text)
    words = "using|typedef|friend|static_assert|enum|return|operator"
    if scope[1] != "public" or opens is None or re.search(rf"\b(?:{words})\b", text):
        return None
    end = closing(text, opens)
    name = re.search(r"(~?\w+)\s*$", text[:opens])
    if not name or name[1].startswith("~") or re.search(r"\boverride\b|=\s*delete", text[end:]):
        return None
    owner = scope[0]
    returns = re.sub(r"\b(?:virtual|static|constexpr|inline|extern)\b", "", text[:name.start()]).strip()
    if not returns and name[1] != owner:
        return None
    qualified = name[1] if owner in ("", name[1]) else f"{owner}::{name[1]}"
    parameters = [parameter_name(parameter) for parameter in split_parameters(text[opens + 1:end])]
    return Declared(qualified, parameters, returns, line, False)


def parameter_name(parameter):
    found = re.search(r"(\w+)\s*(?:\[\w*\])?\s*$", re.sub(r"=.*$", "", parameter, flags=re.DOTALL))
    return found[1] if found else ""
