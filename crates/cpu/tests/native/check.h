// A test is a function that registers itself; EXPECT notes a failure and goes on.
#pragma once
#include <warpwave/target/entry.h>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

struct test {
  const char* name;
  void (*run)();
};
std::vector<test>& tests();
void failed(const char* file, int line, const std::string& what);
struct registered {
  registered(const char* name, void (*run)()) { tests().push_back({name, run}); }
};
#define TEST(name)                                    \
  static void name();                                 \
  static const registered name##_registered(#name, name); \
  static void name()
#define EXPECT(cond, ...)                                                                       \
  do {                                                                                          \
    if (!(cond)) failed(__FILE__, __LINE__, std::string(#cond " ") + std::string(__VA_ARGS__)); \
  } while (0)

constexpr int kSchedules[] = {0, 1, 2, 3, 4, 5};   // late, eager, four seeds

// rows x cols elements `pitch` apart: normal values, NaN in every pad, nothing behind the last element
template <class T> std::vector<T> random_matrix(int rows, int cols, int pitch, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<T> v(rows > 0 && cols > 0 ? size_t(rows - 1) * size_t(pitch) + size_t(cols) : 0, ww::from_float<T>(NAN));
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j) v[size_t(i) * size_t(pitch) + size_t(j)] = ww::from_float<T>(normal(rng));
  v.shrink_to_fit();
  return v;
}
template <class T> bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}
