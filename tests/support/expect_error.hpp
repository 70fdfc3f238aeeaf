// That a call throws an error of one type, whose text says certain things.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace unisono::testing {

template <typename ErrorType>
void expect_error(const std::vector<std::string>& words, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown; expected one that says " << words.front();
  } catch (const ErrorType& error) {
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what() << "\nshould say " << word;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another type: " << error.what();
  }
}

}  // namespace unisono::testing
