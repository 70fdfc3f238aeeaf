#!/usr/bin/env python3
"""What libunisono.so exports: what the headers in include/unisono declare, and nothing else.

    tests/symbols_test.py LIBRARY

A symbol that is exported without need may be met by another package's of that name, or take its place: internals, fmt and Highway
are inside the library and hidden there. cmake/exports.map says how.
"""
import re
import subprocess
import sys
import unittest
from pathlib import Path

HEADERS = Path(__file__).resolve().parent.parent / "include" / "unisono"
# Far from these, something other than a few new functions has happened: the compiler's options, or the export list.
FEWEST, MOST = 300, 400
PREFIXES = ("typeinfo for ", "typeinfo name for ", "vtable for ", "guard variable for ")


class Interface:
    """The names in the headers, without comments. A type that they only announce belongs to the library's internals."""

    def __init__(self, text):
        text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
        announced = re.findall(r"\b(?:class|struct) (\w+);", text)
        defined = re.findall(r"\b(?:class|struct) (\w+)(?: : [^;{]*)? \{", text)
        self.words = set(re.findall(r"\w+", text)) - (set(announced) - set(defined))
        self.c_functions = set(re.findall(r"\b(unisono_\w+)\([^)]", text))

    def declares(self, symbol):
        for prefix in PREFIXES:
            symbol = symbol.removeprefix(prefix)
        if symbol.startswith("unisono_"):
            return symbol in self.c_functions
        parts = qualified_name(symbol).split("::")
        return parts[0] == "unisono" and all(self.is_declared(part) for part in parts[1:])

    def is_declared(self, part):
        return part.startswith("operator") or part.removeprefix("~") in self.words


def qualified_name(symbol):
    """unisono::view of `unisono::TensorView unisono::view<float>(std::vector<float>&)`."""
    symbol = symbol.replace("[abi:cxx11]", "")
    before = None
    while before != symbol:  # the innermost brackets first
        before, symbol = symbol, re.sub(r"(?<!operator)<[^<>]*>", "", symbol)
    symbol = symbol.split("(")[0]
    operator = re.search(r"\S*::operator.*", symbol)
    return operator[0] if operator else symbol.split(" ")[-1]


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported_by(library):
    lines = output_of("nm", "--dynamic", "--defined-only", "--demangle", library).splitlines()
    return [line.split(" ", 2)[2] for line in lines]


class TheLibrary(unittest.TestCase):
    library = None  # from the command line

    @classmethod
    def setUpClass(cls):
        cls.interface = Interface("\n".join(path.read_text() for path in sorted(HEADERS.iterdir())))
        cls.exported = exported_by(cls.library)

    def test_exports_nothing_but_the_interface(self):
        strangers = sorted(symbol for symbol in self.exported if not self.interface.declares(symbol))
        if strangers:
            self.fail(f"{len(strangers)} symbols that no header declares, among them:\n  " + "\n  ".join(strangers[:50]))

    def test_exports_about_as_many_as_expected(self):
        self.assertGreater(len(self.exported), FEWEST)
        self.assertLess(len(self.exported), MOST)

    def test_exports_all_of_c(self):
        self.assertEqual(self.interface.c_functions, {symbol for symbol in self.exported if symbol.startswith("unisono_")})

    def test_exports_what_exceptions_are_caught_by(self):
        for name in ("Error", "ResourceError", "MemoryError", "ErrorOf<(unisono::ErrorCode)1>"):
            self.assertIn(f"typeinfo for unisono::{name}", self.exported)

    def test_has_openssl_inside_and_hidden(self):
        """Two OpenSSLs that see each other in one process have crashed others: Python's ssl and torch bring their own."""
        needed = output_of("readelf", "--dynamic", "--wide", self.library)
        self.assertFalse(re.findall(r"\[lib(?:ssl|crypto)[^\]]*\]", needed))
        symbols = output_of("nm", "--dynamic", self.library)  # neither given to others nor taken from them
        self.assertFalse(re.findall(r" ((?:SSL|CRYPTO|EVP|OPENSSL|BIO|ERR|TLS)_\w+)", symbols))

    def test_needs_neither_fmt_nor_highway(self):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "--dynamic", "--wide", self.library))
        self.assertTrue(needed)
        self.assertFalse([name for name in needed if "fmt" in name or "hwy" in name])
        undefined = output_of("nm", "--dynamic", "--undefined-only", "--demangle", self.library)
        self.assertFalse(re.findall(r".*\b(?:fmt|hwy)::.*", undefined))


class TheRule(unittest.TestCase):
    interface = Interface("""
        class Group;
        class Work;  // Hidden
        namespace unisono {
        class Work { virtual ~Work(); bool wait(); bool operator==(const Work&) const; struct Table; };
        class Loud : public Work { /* Quiet */ };
        TensorView view(std::vector<T>& elements);
        }
        int unisono_version(void);
        typedef void (*unisono_combine)(const void* lower);
    """)

    def test_what_the_headers_declare(self):
        for symbol in ("unisono_version", "unisono::Work::wait()", "unisono::Work::~Work()", "vtable for unisono::Loud",
                       "unisono::Work::operator==(unisono::Work const&) const", "typeinfo name for unisono::Work",
                       "unisono::TensorView unisono::view<float>(std::vector<float, std::allocator<float> >&)",
                       "unisono::view[abi:cxx11](std::function<void (int)>)"):
            self.assertTrue(self.interface.declares(symbol), symbol)

    def test_what_they_do_not(self):
        for symbol in ("fmt::v9::vformat[abi:cxx11](int)", "hwy::GetChosenTarget()", "std::vector<unisono::Work>::~vector()",
                       "unisono::Group::wait()", "unisono::Work::Table::wait()", "unisono::Hidden", "unisono::Quiet::wait()",
                       "unisono_combine", "unisono_hidden", "typeinfo for unisono::Group", "_ZGVZ4main", "main"):
            self.assertFalse(self.interface.declares(symbol), symbol)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    TheLibrary.library = sys.argv.pop()
    unittest.main()
