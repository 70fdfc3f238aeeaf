// What bindings need of the dialects: see unisono/binding.hpp.
#include "unisono/binding.hpp"

#include <string>

#include "dialects/build.hpp"
#include "dialects/default_world.hpp"

namespace unisono {
namespace {

void refuse_on(Group* group, Collective kind, const Status& why) {
  if (!group) throw_if_error(why);
  Request request{.group = group, .checked = why};
  request.call.kind = kind;
  deliver(std::move(request), {});
}

}  // namespace

void say_last_words(const std::string& why) {
  if (has_world()) current_world("say_last_words")->say_last_words(why);
}

void distributed::refuse(Collective kind, const Status& why, const GroupHandle& group) {
  refuse_on(group_of(group, std::string(name_of(kind)).c_str()), kind, why);
}

void comm_func::refuse(Collective kind, const Status& why, const std::string& group) {
  refuse_on(group_named(group, std::string(name_of(kind)).c_str()).get(), kind, why);
}

}  // namespace unisono
