// Letters from one member of a group to another: matching what was sent with what is awaited, and moving it. Letters have
// no call numbers; between two members those with one tag are matched in the order posted, and nothing else is promised.
//
// Everything travels as frames through a channel to each peer, opened when first used. A sender of a short letter waits only until the
// channel has taken it; one that has sent credit_bytes without hearing that some was received, until the receiver has:
//
//   up to eager_bytes   message (with its bytes)           the letter is sent once the channel has taken it
//                       ← credit: so much has been received, and as much more may be sent
//   longer, or beyond   offer →   the receiver, once something awaits it, reads the sender's own memory:   ← taken
//                       offer →   or, where it may not:   ← go,   data →, data →, …
//   either end wrong    offer →   ← wrong: the sender hears what was awaited instead
//
// What nobody awaits yet is kept in the receiver's memory, at most credit_bytes of each peer, so a channel is always emptied by whoever
// waits for something from that peer, and letters may be posted in any order on both sides.
//
// Not thread-safe: used under the mailbox's token. A letter belongs to whoever posted it and stays where it is until over().
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/frames.hpp"
#include "engine/pieces.hpp"
#include "transport/router.hpp"
#include "unisono/types.hpp"

namespace unisono {

inline constexpr int any_source = -1;

// What is to be sent or received; a value.
struct Envelope {
  enum class Kind : uint8_t { send, receive };

  Kind kind = Kind::send;
  DType dtype = DType::uint8;
  int peer = any_source;  // a member; any_source is for receiving only
  int32_t tag = 0;
  Bytes data;
  double timeout_s = 0;   // 0: as the group's

  bool sends() const { return kind == Kind::send; }
  int64_t count() const { return data.bytes / element_bytes(dtype); }
};

class Letter : public Envelope {
 public:
  int source = any_source;  // of a receive, once it has met its match: who sent it
  uint64_t order = 0;       // of posting
  Letter *previous = nullptr, *next = nullptr;  // among those that are not over
  int64_t seen_ns = 0;      // when it was first found waiting; 0: not yet
  enum class Stage : uint8_t { entered, unsent, offered, streaming, awaiting, arriving };
  Stage stage = Stage::entered;  // which queue of Mail's it is in
  bool warned = false;

  explicit Letter(const Envelope& envelope) : Envelope(envelope) {}
  Letter(const Letter&) = delete;
  virtual ~Letter() = default;
  virtual void over(const Status& status) = 0;  // called once; the letter may be gone afterwards
};

// Letters in the order posted. Entering and leaving take no memory, so a letter that was entered is never lost.
class LetterList {
 public:
  bool empty() const { return first_ == nullptr; }
  Letter* first() const { return first_; }
  void add(Letter& letter);
  void remove(Letter& letter);

 private:
  Letter *first_ = nullptr, *last_ = nullptr;
};

class Mail {
 public:
  Mail(Lanes& lanes, Arena& arena, const Ways& ways = {})
      : lanes_(lanes), router_(lanes, arena, LinkUse::letters, ways), peers_(static_cast<size_t>(lanes.members())) {}
  Mail(const Mail&) = delete;
  Router& router() { return router_; }
  void close() { router_.close(); }  // gives back what the channels have taken; nobody may use them any more

  // Whether long letters of this member may be read from its own memory. The receiver alone decides; where the kernel refuses it
  // later, they are sent piece by piece from then on.
  void read_private_memory(int member, bool allowed) { peer(member).is_read = allowed; }

  void enter(Letter& letter);  // from here on it is among letters()
  void post(Letter& letter);   // after it was entered
  bool turn();  // moves what can be moved; true when something did
  bool owes_replies() const { return replies_ > 0; }
  bool owes_answer(int member) const;  // to a letter of its: it waits for that, and can be told
  const LetterList& letters() const { return letters_; }  // those that are not over
  // Ends it: given up by its owner or by the group, whose members then take nothing more from each other.
  void finish(Letter& letter, const Status& status);
  bool needs(int member) const;  // whether a letter waits for it, to take something or to give it
  bool may_come_from(int member) { return router_.to(member).holds_more(); }  // also of one that is gone
  std::string unclaimed_from(int source) const;  // what arrived that nobody awaits, for errors; "" when nothing did
  const Status& failure() const { return failure_; }  // of this rank or of the bytes it found: the group is to be told

 private:
  struct Stray {  // arrived before anybody awaited it
    Frame frame;
    int source;
    uint64_t order;  // of arriving
    std::vector<std::byte> bytes;
  };
  using Key = uint64_t;  // of a source, or any, and a tag
  static Key key_of(int source, int32_t tag) { return static_cast<uint64_t>(source + 1) << 32 | static_cast<uint32_t>(tag); }
  struct Transfer {  // a long letter on its way
    Letter* letter;
    uint64_t sequence;
    uint64_t address = 0;
    int64_t moved = 0;
  };
  struct Incoming {  // the frame that is being received
    enum class Part : uint8_t { none, head, body };

    Part part = Part::none;
    Frame frame;
    Letter* letter = nullptr;      // into whose memory its bytes go, or
    std::vector<std::byte> bytes;  // where they are kept
  };
  struct Peer {
    std::deque<Letter*> unsent;        // not yet announced to the peer
    Letter* leaving = nullptr;         // whose bytes the channel is taking
    Incoming incoming;
    std::deque<Frame> replies;         // to what the peer sent; they go first, and stay here until they have left
    bool replying = false;             // the channel is taking the first of them
    std::deque<Transfer> offered;      // sends that the peer has not taken
    std::deque<Transfer> streams;      // sends that the peer wants through the channel
    std::deque<Transfer> arriving;     // receives under way
    uint64_t next_sequence = 1;
    int64_t credit = credit_bytes;     // what may be sent to it before it says that something was received
    int64_t granted = credit_bytes;    // what it may send
    int64_t received = 0;              // of its messages, since it was last told so
    int64_t offers = 0;                // of its letters, that nothing awaits yet
    bool is_read = false;              // its own memory, for long letters
    int awaited = 0;                   // letters that await something from exactly this peer
  };
  Peer& peer(int index) { return peers_[static_cast<size_t>(index)]; }

  bool send_to(int index);
  bool send_next(int index);
  void send_frame(int index, const Frame& frame, const std::byte* payload = nullptr, int64_t bytes = 0);
  void send_letter(int index, Letter& letter);
  void send_piece(int index);
  void has_left(int index);
  bool lacks_credit(int index) const;
  void give_credit(int index, const Frame& message);
  void reply(int index, Frame::Kind kind, const Frame& to, const Letter* letter = nullptr);
  bool receive_from(int index);
  void take_head(int index);
  void take_body(int index);
  void begin_message(int index);
  void begin_data(int index);
  void answer(int index, const Frame& frame);
  bool read_some(int index);
  bool read_arriving(int index);
  void stop_reading(int index);
  Letter* awaiting(int source, int32_t tag) const;
  std::deque<Stray>* strays_for(const Letter& letter);
  void match_stray(Letter& letter);
  void found_its_match(Letter& letter, int source);
  int& awaited_from(const Letter& letter) { return letter.peer == any_source ? awaited_from_any_ : peer(letter.peer).awaited; }
  void accept(Letter& letter, int source, const Frame& frame);
  Status check_sizes(const Letter& letter, int source, const Frame& frame) const;
  void forget(Letter& letter);
  bool gave_up(int index) const;

  Lanes& lanes_;
  Router router_;
  std::vector<Peer> peers_;
  LetterList letters_;
  std::unordered_map<Key, std::deque<Letter*>> awaited_;  // receives that have met nothing yet
  std::unordered_map<Key, std::deque<Stray>> strays_;
  uint64_t posted_ = 0, arrived_ = 0;
  int replies_ = 0;           // frames that have not left: owed also when no letter waits any more
  int awaited_from_any_ = 0;
  Status failure_;
};

}  // namespace unisono
