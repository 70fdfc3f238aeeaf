// A JSON document that a command printed, asked by expressions of Python's: its own parser reads it, so what is no JSON fails the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "tests/support/file_tree.hpp"

namespace unisono::testing {

class JsonDocument {
 public:
  explicit JsonDocument(const std::string& text) : folder_(std::make_shared<const FileTree>(std::map<std::string, std::string>{{"document.json", text}})), text_(text) {}

  // What str() makes of it; `document` is the whole. "named(rows)" makes a dictionary of a list of checks.
  std::string ask(const std::string& expression) const {
    constexpr std::string_view program =
        "import json, sys\n"
        "document = json.load(open(sys.argv[1]))\n"
        "def named(rows): return {row[\"name\"]: row for row in rows}\n"
        "print(eval(sys.argv[2]), end=\"\")\n";
    std::ofstream(folder_->root() + "ask.py") << program;
    static const std::string python = said_by("python3 -c 'import sys; print(sys.executable, end=\"\")'");  // what stands behind the name may take longer to find than to run
    return said_by(python + " -S " + folder_->root() + "ask.py " + folder_->root() + "document.json '" + expression + "' 2>&1");
  }
  const std::string& text() const { return text_; }

 private:
  std::string said_by(const std::string& line) const {
    std::FILE* pipe = popen(line.c_str(), "r");
    std::string answer;
    for (char part[1024]; const size_t count = std::fread(part, 1, sizeof(part), pipe);) answer.append(part, count);
    EXPECT_EQ(pclose(pipe), 0) << line << ": " << answer << "\nof\n" << text_;
    return answer;
  }

  std::shared_ptr<const FileTree> folder_;
  std::string text_;
};

}  // namespace unisono::testing
