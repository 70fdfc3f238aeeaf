// The torch.distributed dialect: send, recv and their relatives.
#include <map>

#include "dialects/default_world.hpp"
#include "dialects/distributed_parts.hpp"

namespace unisono::distributed {
namespace {

using Kind = Envelope::Kind;

Envelope envelope(const Group& group, Kind kind, const TensorView& tensor, std::optional<Rank> peer, const LetterOptions& options) {
  return envelope_of(group, {kind, tensor, peer, options.group_peer, options.tag, options.timeout_s});
}

WorkPtr post(Kind kind, const TensorView& tensor, std::optional<Rank> peer, const LetterOptions& options) {
  Group* group = group_of(options.group, kind == Kind::send ? "isend" : "irecv");
  if (!group) return nullptr;
  auto work = std::make_shared<MailWork>(group->shared_from_this(), envelope(*group, kind, tensor, peer, options), nullptr);
  group->mailbox().post({work});
  return work;
}

// Where group_dst is given, dst is only what stands in for nothing.
std::optional<Rank> unless_in_group(Rank dst, const LetterOptions& options) {
  return options.group_peer ? std::nullopt : std::optional(dst);
}

}  // namespace

void send(TensorView tensor, Rank dst, const LetterOptions& options) {
  if (Group* group = group_of(options.group, "send"))
    throw_if_error(group->mailbox().run(envelope(*group, Kind::send, tensor, unless_in_group(dst, options), options)));
}

Rank recv(TensorView tensor, std::optional<Rank> src, const LetterOptions& options) {
  Group* group = group_of(options.group, "recv");
  if (!group) return -1;
  int source = any_source;
  throw_if_error(group->mailbox().run(envelope(*group, Kind::receive, tensor, src, options), &source));
  return group->world_rank(source);
}

WorkPtr isend(TensorView tensor, Rank dst, const LetterOptions& options) {
  return post(Kind::send, tensor, unless_in_group(dst, options), options);
}

WorkPtr irecv(TensorView tensor, std::optional<Rank> src, const LetterOptions& options) {
  return post(Kind::receive, tensor, src, options);
}

// All are checked before any is posted, so that a mistake in one leaves nothing half done.
std::vector<WorkPtr> batch_isend_irecv(std::span<const P2POp> operations) {
  std::vector<WorkPtr> all;
  std::map<Group*, std::vector<std::shared_ptr<MailWork>>> by_group;
  for (const P2POp& operation : operations) {
    Group* group = group_of(operation.options.group, "batch_isend_irecv");
    if (!group) continue;
    const Kind kind = operation.op == P2POp::Kind::isend ? Kind::send : Kind::receive;
    auto work = std::make_shared<MailWork>(group->shared_from_this(),
                                           envelope(*group, kind, operation.tensor, operation.peer, operation.options), nullptr);
    by_group[group].push_back(work);
    all.push_back(std::move(work));
  }
  for (auto& [group, works] : by_group) group->mailbox().post(works);
  return all;
}

}  // namespace unisono::distributed
