// Random words by position: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).
// Element `index` of a tensor draws word index mod 4 of the block with counter (floor(index/4), offset) under key `seed`: the draw depends
// on these three alone.
#pragma once
#include <warpwave/tile/types.h>
namespace ww {

struct philox_block { uint32_t w[4]; };
WW_FN philox_block philox(uint64_t seed, uint64_t counter, uint64_t offset) {
  uint32_t a = uint32_t(counter), b = uint32_t(counter >> 32), c = uint32_t(offset), d = uint32_t(offset >> 32);
  uint32_t k = uint32_t(seed), l = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t x = ww::multiply_wide(a, 0xd2511f53u), y = ww::multiply_wide(c, 0xcd9e8d57u);
    a = uint32_t(y >> 32) ^ b ^ k;
    b = uint32_t(y);
    c = uint32_t(x >> 32) ^ d ^ l;
    d = uint32_t(x);
    k += 0x9e3779b9u;
    l += 0xbb67ae85u;
  }
  return {{a, b, c, d}};
}

// w[e] = the word of element index + e. All four words of a block are used; elements that begin within one cost one block more.
// kAligned: index is a multiple of 4.
template <bool kAligned, int kCount> WW_FN void random_words(uint32_t (&w)[kCount], uint64_t seed, uint64_t offset, int64_t index) {
  constexpr int kBlocks = (kCount + 3) / 4 + (kAligned ? 0 : 1);
  const uint64_t first = uint64_t(index >> 2);
  uint32_t all[4 * kBlocks + 2] = {};
  for (int j = 0; j < kBlocks; ++j) {
    const philox_block r = philox(seed, first + uint64_t(j), offset);
    for (int e = 0; e < 4; ++e) all[4 * j + e] = r.w[e];
  }
  if constexpr (!kAligned) {
    // selects by the bits of skip, not an index: arrays that are indexed leave the registers
    const int skip = int(index & 3);
    for (int j = 0; j < kCount + 1; ++j) all[j] = skip & 2 ? all[j + 2] : all[j];
    for (int j = 0; j < kCount; ++j) all[j] = skip & 1 ? all[j + 1] : all[j];
  }
  for (int j = 0; j < kCount; ++j) w[j] = all[j];
}

}  // namespace ww
