// The command line of `unisono tour`; the tour itself is tour.cpp.
#include "tools/tour/tour_command.hpp"

#include <memory>
#include <string>

#include "tools/show/self.hpp"
#include "tools/tour/tour.hpp"

namespace unisono::tools {

void add_tour_command(CLI::App& app, int& exit_code) {
  struct Line {
    int ranks = 4;
    bool as_rank = false;
  };
  auto line = std::make_shared<Line>();
  CLI::App* tour = app.add_subcommand("tour", "The five collectives in both dialects, and how fast all_reduce is.");
  tour->add_option("-n,--ranks", line->ranks, "how many ranks to start")->check(CLI::Range(1, 16))->capture_default_str();
  tour->add_flag(as_rank_flag, line->as_rank)->group("");
  tour->callback([line, &exit_code] {
    exit_code = line->as_rank ? run_tour_rank() : run_self(line->ranks, {"tour", "--ranks", std::to_string(line->ranks)});
  });
}

}  // namespace unisono::tools
