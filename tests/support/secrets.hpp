// Job secrets in tests: files with them, and what find_secret() is to say.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "trust/secret.hpp"

namespace unisono::testing {

inline const std::string canary = "cafe0123456789abcafe0123456789abcafe0123456789abcafe0123456789ab";

inline std::string digits(char digit) { return std::string(Secret::digit_count, digit); }

// As in a process that was told nothing.
inline void forget_all_sources() {
  for (const char* variable : {"UNISONO_SECRET_FD", "UNISONO_SECRET_FILE", "UNISONO_SECRET", "XDG_CONFIG_HOME"}) unsetenv(variable);
}

inline void put_secret(const std::string& path, const std::string& text, mode_t mode = 0600) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
  EXPECT_EQ(chmod(path.c_str(), mode), 0) << path;
}

// A refusal says these things, and not as much as four bytes of the canary.
inline void expect_says(const Status& status, const std::vector<std::string>& words) {
  const std::string text = status.text();
  for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << text << "\nshould say " << word;
  for (size_t at = 0; at + 8 <= canary.size(); ++at) EXPECT_EQ(text.find(canary.substr(at, 8)), std::string::npos) << text;
}

inline void expect_found(const std::string& digits, const std::string& source) {
  const Result<std::optional<Secret>> secret = find_secret();
  ASSERT_TRUE(secret.ok()) << secret.status().text();
  ASSERT_TRUE(secret.value().has_value()) << "none was found, it should come from " << source;
  EXPECT_EQ(secret.value()->source(), source);
  EXPECT_TRUE(*secret.value() == Secret::parse(digits, "", "").value()) << "another secret";
}

inline void expect_refused(ErrorCode code, const std::vector<std::string>& words) {
  const Result<std::optional<Secret>> secret = find_secret();
  ASSERT_FALSE(secret.ok()) << "expected a refusal that says " << words.back();
  EXPECT_EQ(secret.status().code(), code) << secret.status().text();
  expect_says(secret.status(), words);
}

}  // namespace unisono::testing
