// Matrix ops: what a policy declares, what the group of threads that runs it offers.  The bodies are the target's
// (<warpwave/target/tile.h>); the drivers that decide who loads and who computes are <warpwave/target/sched.h>.
//
// A matrix op is a policy struct:
//   kGroups                             groups of a block; each owns a band of rows of the block's tile
//   kMaps                               tensor maps of a launch: 1 + the largest kMap of its views
//   kTurns, kUneven                     groups alternate on the matrix unit; tiles of uneven cost are drawn from a queue (Params::queue)
//   struct Params                       by value in the argument block
//   struct Slot..., Rings               what one entry of each ring holds; rings<ring<Slot, depth>, ...>
//   struct Scratch                      store_staging and the like, one for each group
//   tiles(p), tile(p, i), items(p, t)   pure: how many tiles, which tile is number i, how many slots it consumes over all rings
//   load(g, p, t, i)                    pure: item i fills exactly one slot of one ring.  May run early, late, twice, on one thread or all
//   run(g, p, t)                        straight-line code of one group for one tile
//
// loading side
//   g.fill<I>(f)                        wait for a free slot of ring I, let f(slot) copy into it, publish it
//   g.copy_async(tile, view, coord)     elements outside the view arrive as 0; complete when the slot is published
// computing side
//   g.index                             which band this group owns
//   g.wait<I>() -> const Slot&          the next slot of ring I, in order;  g.release<I>() frees the oldest one still held
//   g.band<M>(tile)                     rows [index*M, (index+1)*M) of a tile as left operand;  g.band_cols<M>(tile): columns, for a tile stored transposed
//   g.whole(tile)                       a tile of the group's own as left operand
//   g.mma_async(acc, a, b, accumulate)  one batch: acc (+)= a b.  a: band | band_cols | operand;  b: tile | transposed(tile)
//   g.mma_wait<N>(x...)                 at most N batches still run; the accumulators and operands named are readable again
//   g.load_operand(band) -> operand     shared memory -> registers
//   g.put(tile, acc)                    registers -> the group's own tile, an operand on return
//   g.store(view, corner, acc, staging) clips to the view, converts nearest even; asynchronous, drained by the driver.  corner is the block's
//   g.store_direct(view, corner, acc)   the same straight from registers, any element type and pitch
//   g.store_column(view, coord, column) rows from coord.row + the group's band
//   g.zip_view(acc, view, corner, f)    acc = f(acc, element of the view); elements outside the view are left alone
//   g.row_max(acc, column) -> column, g.total(partial) -> column, g.scale_rows(acc, column)
//   g.map_index(acc, f)                 f(x, row, col) counted from the group's own corner
//   g.turn_take(), g.turn_pass()
// values
//   zero(acc), map(acc|column, f), map_rows(acc, column, f), zip(column, column, f) -> column, add_rows(partial, acc), scale(partial, column),
//   as_operand<T>(acc) -> operand, fill_column<M>(x), zero_partial<M>()
//
// Rules for an op's author
//   1. A slot is readable from wait to release; release it only after the mma_wait that let the last batch reading it through.
//   2. From mma_async to the mma_wait that names it, an accumulator (read or write) and an operand (write) are untouchable.
//   3. Every slot waited for is released within the tile; every batch is waited for within the tile.
//   4. Items of a tile have one total order; a ring must never need a slot that only a later release frees.
//   5. turn_take and turn_pass alternate, equally often in every group.
//   6. put and store own their fences and group barriers; an op has no barrier, fence or phase bit.
#pragma once
#include <warpwave/tile/types.h>
namespace ww {

template <class S, int kDepth> struct ring { using slot = S; static constexpr int depth = kDepth; };
template <class... R> struct rings { static constexpr int kCount = sizeof...(R); };
template <int I, class L> struct ring_at;
template <class H, class... T> struct ring_at<0, rings<H, T...>> { using type = H; };
template <int I, class H, class... T> struct ring_at<I, rings<H, T...>> : ring_at<I - 1, rings<T...>> {};
template <class Op, int I> using slot_of = typename ring_at<I, typename Op::Rings>::type::slot;
template <class Op, int I> constexpr int depth_of = ring_at<I, typename Op::Rings>::type::depth;

// How the products read a shared tile: with the summed dimension along its columns (k) or along its rows (mn).  A target whose matrix
// instructions want the one may store the other transposed; a product that reads a tile against its use does not compile.
enum class major { k, mn };
// What happens to an accumulator's rows: reduced or turned into an operand (then a row stays within one warp), or nothing.
enum class rows { free, reduced };

template <class Tile> struct transposed_tile { const Tile& t; };
template <class Tile> WW_FN transposed_tile<Tile> transposed(const Tile& t) { return {t}; }

}  // namespace ww
