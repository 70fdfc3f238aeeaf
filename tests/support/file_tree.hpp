// Files in a directory of their own, as some part of the system would show them; gone when the test is over.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace unisono::testing {

class FileTree {
 public:
  explicit FileTree(const std::map<std::string, std::string>& files) {
    std::string pattern = std::filesystem::temp_directory_path() / "tree-XXXXXX";
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    for (const auto& [path, text] : files) {
      std::filesystem::create_directories((directory_ / path).parent_path());
      std::ofstream(directory_ / path) << text;
    }
  }
  ~FileTree() { std::filesystem::remove_all(directory_); }
  FileTree(const FileTree&) = delete;

  std::string root() const { return directory_.string() + "/"; }

 private:
  std::filesystem::path directory_;
};

}  // namespace unisono::testing
