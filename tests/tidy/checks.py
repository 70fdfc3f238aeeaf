"""The numbers and habits of the project's style, each as a function that yields (path, line, what is wrong)."""
import re

from tidy.source import CODE_DIRECTORIES

FILE_LINES = 400
FUNCTION_LINES = 70
PARAMETERS = 5
STAND_IN = "_stand_in/"  # libraries of others, as tests have them
OWN_MACROS = ("CHECK", "RETURN_IF_ERROR", "FAULT_POINT")
# C has neither named arguments nor default values, and tells versions and double inclusion by macros.
C_HEADER = "include/unisono/unisono.h"
C_FUNCTIONS = "src/dialects/c_"
MACRO_PLACES = ("src/kernels/", "python/", "torch_backend/")  # dependencies that work by macros live here
LIBRARY = ("src/", "include/", "tools/")
ENVIRONMENT_READER = "src/base/environment.cpp"
DTYPE_SWITCHES = "src/kernels/"

# Files that may hold mutable globals → why.
GLOBALS = {
    "src/dialects/default_world.cpp": "the default World",
    "src/dialects/c_api.cpp": "what C has no object for: a thread's last error and deadline, made ops, shared memory",
    "src/transport/arena.cpp": "which memory this process has mapped: ranks that are its threads share the mappings",
    "src/rendezvous/pmix.cpp": "this process's connection to its launcher, of which PMIx has one, until the process exits",
    "src/trust/secret.cpp": "the secret that this process was handed: descriptor and variable can be read only once",
    "src/base/interrupt.cpp": "whom to ask whether a thread that waits was interrupted: signals concern the process",
    "src/kernels/highway.cpp": "which instruction set the kernels use, where Highway looks it up",
    "src/base/fault_point.cpp": "where this process is to die; used by test builds only",
}


def check_file_length(tree):
    """No file is longer than FILE_LINES."""
    for path in tree.paths:
        if path.startswith(CODE_DIRECTORIES) and path.endswith((".cpp", ".hpp", ".h", ".c", ".py", ".cmake", ".txt")):
            lines = tree.text(path).count("\n")
            if lines > FILE_LINES:
                yield path, FILE_LINES + 1, f"{lines} lines; {FILE_LINES} at the very most"


def check_function_length(tree):
    """Functions fit a screen, or nearly."""
    for path in tree.cpp():
        for function in tree.scan(path)[0]:
            lines = function.last_line - function.line + 1
            if lines > FUNCTION_LINES:
                yield path, function.line, f"{function.name} has {lines} lines; {FUNCTION_LINES} at most"


def check_parameter_count(tree):
    """At most five parameters, then a struct; but for the functions that C calls."""
    for path in tree.cpp():
        for function in tree.scan(path)[0]:
            count = len(function.parameters)
            is_for_c = path.startswith(C_FUNCTIONS) and function.name.startswith("unisono_") or STAND_IN in path
            if count > PARAMETERS and not is_for_c:
                yield path, function.line, f"{function.name} takes {count} parameters; after {PARAMETERS}, a struct"


def check_macros(tree):
    """Three macros of our own; those of dependencies only where dependencies need them."""
    for path in tree.cpp():
        if path.startswith(MACRO_PLACES):
            continue
        for line, match in tree.find(path, r"^[ \t]*#[ \t]*define[ \t]+(\w+)"):
            is_for_c = path == C_HEADER and re.fullmatch(r"UNISONO_(?:UNISONO_H|VERSION_\w+)", match[1])
            is_guard = path.startswith("tests/c_api/") and match[1].endswith("_H")
            if not is_for_c and not is_guard and (match[1] not in OWN_MACROS or not path.startswith("src/base/")):
                yield path, line, f"#define {match[1]}: the macros are {', '.join(OWN_MACROS)}, in src/base"
        for line, match in tree.find(path, r"\bHWY_\w+"):
            if not path.startswith("tests/"):
                yield path, line, f"{match[0]}: Highway's macros stay in src/kernels"


def check_goto(tree):
    """No goto."""
    for path in tree.cpp():
        for line, _ in tree.find(path, r"\bgoto\b"):
            yield path, line, "goto"


def check_owning_pointers(tree):
    """No raw pointer owns: no new (but in place, or straight into a smart pointer), no delete, no malloc."""
    for path in tree.cpp(*LIBRARY):
        if path in GLOBALS:
            continue
        smart = r"_ptr<[^;()]*>\s*\w*[({]\s*"  # unique_ptr<T>(new T…), for constructors that are private
        for line, match in tree.find(path, rf"(\boperator\s+|{smart})?(?<!<)\bnew\b(?!\s*\((?!\s*std::nothrow))"):
            if not match[1]:
                yield path, line, "new: make_unique, or a container"
        for line, match in tree.find(path, r"(\boperator\s+|=\s*)?\bdelete\b"):
            if not match[1]:
                yield path, line, "delete: let a destructor do it"
        functions = "malloc|calloc|realloc|free|strdup|aligned_alloc|posix_memalign"
        # A word before it makes it the declaration of a function of our own; a dot or an arrow, a call of one.
        for line, match in tree.find(path, rf"(\w[\w>&*]*[ \t]+|[.>:])?(\bstd::)?\b({functions})\s*\("):
            before = (match[1] or "").strip()
            if not before or before in ("return", "else", "do"):
                yield path, line, f"{match[3]}: let a container or unique_ptr own it"


def check_environment(tree):
    """The environment is read in one file."""
    for path in tree.cpp():
        if path != ENVIRONMENT_READER:
            for line, match in tree.find(path, r"\b(?:secure_)?getenv\b|\benviron\b"):
                yield path, line, f"{match[0]}: use process_environment(), of {ENVIRONMENT_READER}"


def check_dtype_switches(tree):
    """Only the kernels switch on the element type."""
    for path in tree.cpp():
        if not path.startswith(DTYPE_SWITCHES):
            for line, _ in tree.find(path, r"\bcase\s+(?:unisono::)?DType::|\busing\s+enum\s+(?:unisono::)?DType\b"):
                yield path, line, f"a switch over DType; only {DTYPE_SWITCHES} has one, others ask a table"


def check_globals(tree):
    """No mutable global but the default World: neither at namespace scope, nor a static member or local."""
    for path in tree.cpp(*LIBRARY):
        if path in GLOBALS:
            continue
        for statement in tree.scan(path)[1]:
            if statement.scope == "namespace" and is_variable(statement.text) and is_mutable(statement.text):
                yield path, statement.line, f"a mutable global: {one_line(statement.text)}"
        # Inside classes and functions, and static or thread_local says so itself.
        for line, match in tree.find(path, r"\b(?:static|thread_local)\b([^;(){}=]*)(\(|[;{=])"):
            declaration = re.sub(r"\[\[.*?\]\]", "", match[1])
            if match[2] != "(" and is_mutable(declaration) and not at_namespace_scope(tree, path, line):
                yield path, line, f"a mutable static: {one_line(match[0])}"


def at_namespace_scope(tree, path, line):
    return any(statement.line == line and statement.scope == "namespace" for statement in tree.scan(path)[1])


def one_line(text):
    return " ".join(text.split())[:80]


def is_variable(text):
    declaration = re.split(r"[={]", text)[0]
    if "(" in declaration or "operator" in declaration:
        return False  # a function, a macro, or a variable initialised in parentheses, which we do not write
    other_words = "using|typedef|namespace|friend|extern|static_assert|template|concept|class|struct|union|enum|return"
    if re.match(rf"(?:{other_words})\b", declaration):
        return False
    return re.fullmatch(r"[\w:<>,*&\s\[\]]+[\s*&>]\w[\w:]*\s*(?:\[[^\]]*\]\s*)*", declaration) is not None


def is_mutable(text):
    declaration = re.split(r"[={]", text)[0]
    if re.search(r"\bconstexpr\b", declaration):
        return False
    if re.search(r"\*(?!.*\bconst\b)", re.sub(r"<.*>", "", declaration)):
        return True  # a pointer that can be made to point elsewhere
    return re.search(r"\bconst\b", declaration) is None


def check_sleeps(tree):
    """Tests wait for what they wait for, never for a while."""
    sleeps = r"\b(?:sleep_for|sleep_until|usleep|nanosleep)\b|(?<![\w.>:])(?:::)?sleep\s*\("
    for path in tree.cpp("tests/"):
        for line, match in tree.find(path, sleeps):
            yield path, line, f"{match[0].rstrip('( ')}: wait for the event itself"


def check_atomics_are_argued(tree):
    """A file with an atomic opens with its argument."""
    for path in tree.cpp("src/", "include/"):
        for line, match in tree.find(path, r"\bstd::atomic(?:_ref|_flag|_thread_fence)?\b|\b__atomic_\w+"):
            opening = "\n".join(tree.text(path).split("\n")[:40])
            comments = "\n".join(re.findall(r"//(.*)", opening))
            if not re.search(r"\bWho (?:writes|reads)\b|\bOrder\b", comments):
                yield path, line, f'{match[0]}, but no comment at the top says "Who writes" or "Order"'
            break


def check_unfinished_marks(tree):
    """Nothing is left to do in a comment: it is an issue, or it is done."""
    marks = "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3))
    for path in tree.paths:
        if path == "LICENSE" or path.endswith((".pyc", ".o")):
            continue
        for number, line in enumerate(tree.text(path).split("\n"), 1):
            if match := re.search(rf"\b(?:{marks})\b", line):
                yield path, number, f"{match[0]}: finish it or open an issue"
