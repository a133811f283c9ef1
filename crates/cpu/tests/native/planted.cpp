// Each planted bug breaks one rule of warpwave/tile/tile.h, most of them a silent race on a GPU.  It runs in a child process and must be
// reported there, whatever the schedule: by the driver, which names the rule, or by AddressSanitizer at the line of the op.
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>
using namespace ww;
#if defined(__SANITIZE_ADDRESS__)
extern "C" const char* __asan_default_options() { return "symbolize=0:detect_leaks=0"; }
constexpr bool kAsan = true;
#else
constexpr bool kAsan = false;
#endif

enum class bug {
  none, early_release, release_without_wait, never_released, no_wait, unnamed_wait, wrong_name, accumulator_touched,
  operand_overwritten, in_flight_at_end, named_too_early, operand_too_early,
  load_forgotten, copied_twice, load_fills_none, load_fills_two, too_few_items, too_many_items,
  item_order, use_after_release, one_past_the_tile, accumulate_first, unequal_turns, turn_twice, turn_kept, put_in_use, read_before_put,
};

// out = a b by way of registers for a, one ring for each operand, a tile of its own for the result of the first product
template <bug B> struct Planted {
  static constexpr int kGroups = 2, kM = 8, kN = 16, kK = 8;
  using T = bf16;
  struct Params { view<const T> a, b; view<float> out; int k; };
  struct SlotA { shared_tile<T, kM * kGroups, kK, major::k> t; };
  struct SlotB { shared_tile<T, kK, kN, major::mn> t; };
  struct Scratch { shared_tile<T, kM, kN, major::k> mine; store_staging<float, 1> out; };
  using Rings = rings<ring<SlotA, 2>, ring<SlotB, 2>>;
  struct Tile { int steps; };
  static int tiles(const Params&) { return 1; }
  static Tile tile(const Params& p, int) { return {ceil_div(p.k, kK)}; }
  static int items(const Params&, const Tile& t) { return 2 * t.steps + (B == bug::too_few_items ? -1 : B == bug::too_many_items ? 1 : 0); }
  template <class G> static void load(G& g, const Params& p, const Tile& t, int i) {
    int k = i / 2 * kK;
    bool second = i % 2;
    if (B == bug::item_order) {   // all of a before the first of b: a's ring cannot hold it
      second = i >= t.steps;
      k = i % t.steps * kK;
    }
    if (B == bug::load_fills_none && i == 1) return;
    if (second) {
      g.template fill<1>([&](SlotB& s) {
        if (B != bug::load_forgotten || i != 3) g.copy_async(s.t, p.b, coord{k, 0});
        if (B == bug::copied_twice) g.copy_async(s.t, p.b, coord{k, 0});
      });
    } else {
      g.template fill<0>([&](SlotA& s) { g.copy_async(s.t, p.a, coord{0, k}); });
      if (B == bug::load_fills_two) g.template fill<1>([&](SlotB& s) { g.copy_async(s.t, p.b, coord{k, 0}); });
    }
  }
  template <class G> static void run(G& g, const Params& p, const Tile& t) {
    acc<kM, kN, rows::reduced> d, other;
    operand<T, kM, kK> a;
    if (B == bug::release_without_wait) g.template release<0>();
    for (int i = 0; i < t.steps; ++i) {
      const SlotA& sa = g.template wait<0>();
      a = g.load_operand(g.template band<kM>(sa.t));
      g.template release<0>();
      if (B == bug::use_after_release) a = g.load_operand(g.template band<kM>(sa.t));
      const SlotB& sb = g.template wait<1>();
      if (B == bug::one_past_the_tile) a.d[0][0] = sb.t.data[kK * kN];
      if (B != bug::unequal_turns || g.index == 0) g.turn_take();
      if (B == bug::turn_twice) g.turn_take();
      g.mma_async(d, a, sb.t, i > 0 || B == bug::accumulate_first);
      if ((B != bug::unequal_turns || g.index == 0) && B != bug::turn_kept) g.turn_pass();
      if (B == bug::early_release) g.template release<1>();
      if (B == bug::accumulator_touched) map(d, [](float x) { return 2 * x; });
      if (B == bug::operand_overwritten) a.d[1][1] = T{0};
      if (B == bug::named_too_early) g.template mma_wait<1>(d);
      if (B == bug::operand_too_early) g.template mma_wait<1>(a);
      if (B == bug::unnamed_wait) g.template mma_wait<0>();
      else if (B == bug::wrong_name) g.template mma_wait<0>(a, other);
      else if (B != bug::no_wait && !(B == bug::in_flight_at_end && i == t.steps - 1)) g.template mma_wait<0>(d, a);
      if (B != bug::never_released && B != bug::early_release && !(B == bug::in_flight_at_end && i == t.steps - 1)) g.template release<1>();
    }
    if (B == bug::in_flight_at_end) return;
    auto& mine = g.scratch().mine;
    acc<kM, kM, rows::reduced> gram;
    if (B != bug::read_before_put) g.put(mine, d);
    g.mma_async(gram, g.whole(mine), transposed(mine), false);
    if (B == bug::put_in_use) g.put(mine, d);
    g.template mma_wait<0>(gram);
    g.store(p.out, {0, 0}, gram, g.scratch().out);
  }
};

struct outcome { bool died; std::string said; std::vector<float> out; };
template <bug B> static std::vector<float> product(int schedule) {
  using Op = Planted<B>;
  constexpr int kSteps = 4, kDepth = kSteps * Op::kK;
  auto a = random_matrix<bf16>(Op::kM * Op::kGroups, kDepth, kDepth, 1), b = random_matrix<bf16>(kDepth, Op::kN, Op::kN, 2);
  std::vector<float> out(size_t(Op::kM * Op::kGroups * Op::kM), NAN);
  typename Op::Params p{};
  p.a = {a.data(), kDepth, 0, 0, Op::kM * Op::kGroups, kDepth, 1, 1, 0, 0};
  p.b = {b.data(), Op::kN, 0, 0, kDepth, Op::kN, 1, 1, 0, 0};
  p.out = {out.data(), Op::kM, 0, 0, Op::kM * Op::kGroups, Op::kM, 1, 1, 0, 0};
  p.k = kDepth;
  host::schedule = schedule;
  host::run_tiles<Op>(p, 0, 1);
  host::schedule = 0;
  return out;
}
template <bug B> static outcome in_child(int schedule) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  std::fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    auto out = product<B>(schedule);
    bool nan = false;
    for (float x : out) nan |= x != x;
    std::fprintf(stderr, nan ? "result is NaN\n" : "nothing noticed\n");
    _exit(nan ? 1 : 0);
  }
  close(ends[1]);
  outcome o;
  char text[4096];
  for (ssize_t n; (n = read(ends[0], text, sizeof text)) > 0;) o.said.append(text, size_t(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  o.died = !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return o;
}
template <bug B> static void reported(const char* by, const char* also = nullptr) {
  if (!kAsan && std::strcmp(by, "AddressSanitizer") == 0) return;
  for (int schedule : kSchedules) {
    outcome o = in_child<B>(schedule);
    bool named = o.said.find(by) != std::string::npos || (also && o.said.find(also) != std::string::npos);
    EXPECT(o.died && named, "bug " + std::to_string(int(B)) + " schedule " + std::to_string(schedule) + ": " + o.said.substr(0, 200));
  }
}
constexpr const char* kMemory = "AddressSanitizer";

TEST(planted_none) {
  auto first = product<bug::none>(0);
  for (float x : first) EXPECT(x == x);
  for (int s : kSchedules) EXPECT(same_bits(first, product<bug::none>(s)));
}
TEST(planted_early_release) { reported<bug::early_release>("release of a slot that a batch still reads"); }
TEST(planted_release_without_wait) { reported<bug::release_without_wait>("release without a wait"); }
TEST(planted_never_released) { reported<bug::never_released>("deadlock", "a slot was not released"); }
TEST(planted_no_wait) { reported<bug::no_wait>("release of a slot that a batch still reads"); }
TEST(planted_unnamed_wait) { reported<bug::unnamed_wait>(kMemory); }
TEST(planted_wrong_name) { reported<bug::wrong_name>(kMemory); }
TEST(planted_accumulator_touched) { reported<bug::accumulator_touched>(kMemory); }
TEST(planted_operand_overwritten) { reported<bug::operand_overwritten>(kMemory); }
TEST(planted_in_flight_at_end) { reported<bug::in_flight_at_end>("a batch is still in flight"); }
TEST(planted_named_too_early) { reported<bug::named_too_early>("names an accumulator that a batch still writes"); }
TEST(planted_operand_too_early) { reported<bug::operand_too_early>("names an operand that a batch still reads"); }
TEST(planted_load_forgotten) { reported<bug::load_forgotten>(kMemory); }
TEST(planted_copied_twice) { reported<bug::copied_twice>("two copies fill one tile"); }
TEST(planted_load_fills_none) { reported<bug::load_fills_none>("load must fill exactly one slot"); }
TEST(planted_load_fills_two) { reported<bug::load_fills_two>("load must fill exactly one slot"); }
TEST(planted_too_few_items) { reported<bug::too_few_items>("wait on a ring that gets no further item"); }
TEST(planted_too_many_items) { reported<bug::too_many_items>("items were left unread"); }
TEST(planted_item_order) { reported<bug::item_order>("deadlock"); }
TEST(planted_use_after_release) { reported<bug::use_after_release>(kMemory); }
TEST(planted_one_past_the_tile) { reported<bug::one_past_the_tile>(kMemory); }
TEST(planted_accumulate_first) { reported<bug::accumulate_first>("result is NaN"); }
TEST(planted_unequal_turns) { reported<bug::unequal_turns>("groups take unequal numbers of turns"); }
TEST(planted_turn_twice) { reported<bug::turn_twice>("turn_take twice"); }
TEST(planted_turn_kept) { reported<bug::turn_kept>("turn_take"); }
TEST(planted_put_in_use) { reported<bug::put_in_use>("put overwrites a tile"); }
TEST(planted_read_before_put) { reported<bug::read_before_put>(kMemory); }
