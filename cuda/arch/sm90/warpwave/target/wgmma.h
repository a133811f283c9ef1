// wgmma.mma_async, 64 x N x 16, float32 sum: A from shared memory (ss) or from registers (rs), B from shared memory.
// A register list is written once, by fours: WW_D<n> names registers %0..%n-1 in the instruction, WW_F<n> binds them to d[0..n-1].
#pragma once
#include <warpwave/cuda/base.h>
namespace ww::sm90 {
// kTransA, kTransB: the operand is stored with its summed dimension down the rows
template <class T, int N> struct wgmma;

#define WW_FOUR(a, b, c, e) "+f"(d[a]), "+f"(d[b]), "+f"(d[c]), "+f"(d[e])
#define WW_D4 "%0,%1,%2,%3"
#define WW_F4 WW_FOUR(0, 1, 2, 3)
#define WW_D8 WW_D4 ",%4,%5,%6,%7"
#define WW_F8 WW_F4, WW_FOUR(4, 5, 6, 7)
#define WW_D12 WW_D8 ",%8,%9,%10,%11"
#define WW_F12 WW_F8, WW_FOUR(8, 9, 10, 11)
#define WW_D16 WW_D12 ",%12,%13,%14,%15"
#define WW_F16 WW_F12, WW_FOUR(12, 13, 14, 15)
#define WW_D20 WW_D16 ",%16,%17,%18,%19"
#define WW_F20 WW_F16, WW_FOUR(16, 17, 18, 19)
#define WW_D24 WW_D20 ",%20,%21,%22,%23"
#define WW_F24 WW_F20, WW_FOUR(20, 21, 22, 23)
#define WW_D28 WW_D24 ",%24,%25,%26,%27"
#define WW_F28 WW_F24, WW_FOUR(24, 25, 26, 27)
#define WW_D32 WW_D28 ",%28,%29,%30,%31"
#define WW_F32 WW_F28, WW_FOUR(28, 29, 30, 31)
#define WW_D36 WW_D32 ",%32,%33,%34,%35"
#define WW_F36 WW_F32, WW_FOUR(32, 33, 34, 35)
#define WW_D40 WW_D36 ",%36,%37,%38,%39"
#define WW_F40 WW_F36, WW_FOUR(36, 37, 38, 39)
#define WW_D44 WW_D40 ",%40,%41,%42,%43"
#define WW_F44 WW_F40, WW_FOUR(40, 41, 42, 43)
#define WW_D48 WW_D44 ",%44,%45,%46,%47"
#define WW_F48 WW_F44, WW_FOUR(44, 45, 46, 47)
#define WW_D52 WW_D48 ",%48,%49,%50,%51"
#define WW_F52 WW_F48, WW_FOUR(48, 49, 50, 51)
#define WW_D56 WW_D52 ",%52,%53,%54,%55"
#define WW_F56 WW_F52, WW_FOUR(52, 53, 54, 55)
#define WW_D60 WW_D56 ",%56,%57,%58,%59"
#define WW_F60 WW_F56, WW_FOUR(56, 57, 58, 59)
#define WW_D64 WW_D60 ",%60,%61,%62,%63"
#define WW_F64 WW_F60, WW_FOUR(60, 61, 62, 63)
#define WW_D68 WW_D64 ",%64,%65,%66,%67"
#define WW_F68 WW_F64, WW_FOUR(64, 65, 66, 67)
#define WW_D72 WW_D68 ",%68,%69,%70,%71"
#define WW_F72 WW_F68, WW_FOUR(68, 69, 70, 71)
#define WW_D76 WW_D72 ",%72,%73,%74,%75"
#define WW_F76 WW_F72, WW_FOUR(72, 73, 74, 75)
#define WW_D80 WW_D76 ",%76,%77,%78,%79"
#define WW_F80 WW_F76, WW_FOUR(76, 77, 78, 79)
#define WW_D84 WW_D80 ",%80,%81,%82,%83"
#define WW_F84 WW_F80, WW_FOUR(80, 81, 82, 83)
#define WW_D88 WW_D84 ",%84,%85,%86,%87"
#define WW_F88 WW_F84, WW_FOUR(84, 85, 86, 87)
#define WW_D92 WW_D88 ",%88,%89,%90,%91"
#define WW_F92 WW_F88, WW_FOUR(88, 89, 90, 91)
#define WW_D96 WW_D92 ",%92,%93,%94,%95"
#define WW_F96 WW_F92, WW_FOUR(92, 93, 94, 95)
#define WW_D100 WW_D96 ",%96,%97,%98,%99"
#define WW_F100 WW_F96, WW_FOUR(96, 97, 98, 99)
#define WW_D104 WW_D100 ",%100,%101,%102,%103"
#define WW_F104 WW_F100, WW_FOUR(100, 101, 102, 103)
#define WW_D108 WW_D104 ",%104,%105,%106,%107"
#define WW_F108 WW_F104, WW_FOUR(104, 105, 106, 107)
#define WW_D112 WW_D108 ",%108,%109,%110,%111"
#define WW_F112 WW_F108, WW_FOUR(108, 109, 110, 111)
#define WW_D116 WW_D112 ",%112,%113,%114,%115"
#define WW_F116 WW_F112, WW_FOUR(112, 113, 114, 115)
#define WW_D120 WW_D116 ",%116,%117,%118,%119"
#define WW_F120 WW_F116, WW_FOUR(116, 117, 118, 119)
#define WW_D124 WW_D120 ",%120,%121,%122,%123"
#define WW_F124 WW_F120, WW_FOUR(120, 121, 122, 123)
#define WW_D128 WW_D124 ",%124,%125,%126,%127"
#define WW_F128 WW_F124, WW_FOUR(124, 125, 126, 127)

// R = N / 2 registers; the inputs are numbered from R on
#define WW_WGMMA_OF(T, PTX, N, R, R1, R2, R3, R4, R5, R6) \
  template <> struct wgmma<T, N> { \
    template <bool kTransA, bool kTransB> WW_FN static void ss(float (&d)[R], uint64_t a, uint64_t b, int accumulate) { \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" #R2 ", 0;\n" \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX " {" WW_D##R "}, %" #R ", %" #R1 ", p, 1, 1, %" #R3 ", %" #R4 ";}" \
                   : WW_F##R : "l"(a), "l"(b), "r"(accumulate), "n"(int(kTransA)), "n"(int(kTransB))); \
    } \
    template <bool kTransB> WW_FN static void rs(float (&d)[R], const uint32_t (&a)[4], uint64_t b, int accumulate) { \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" #R5 ", 0;\n" \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX " {" WW_D##R "}, " \
                   "{%" #R ",%" #R1 ",%" #R2 ",%" #R3 "}, %" #R4 ", p, 1, 1, %" #R6 ";}" \
                   : WW_F##R : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(int(kTransB))); \
    } \
  };
#define WW_WGMMA(N, R, ...) WW_WGMMA_OF(bf16, "bf16", N, R, __VA_ARGS__) WW_WGMMA_OF(f16, "f16", N, R, __VA_ARGS__)

WW_WGMMA(8, 4, 5, 6, 7, 8, 9, 10)
WW_WGMMA(16, 8, 9, 10, 11, 12, 13, 14)
WW_WGMMA(24, 12, 13, 14, 15, 16, 17, 18)
WW_WGMMA(32, 16, 17, 18, 19, 20, 21, 22)
WW_WGMMA(40, 20, 21, 22, 23, 24, 25, 26)
WW_WGMMA(48, 24, 25, 26, 27, 28, 29, 30)
WW_WGMMA(56, 28, 29, 30, 31, 32, 33, 34)
WW_WGMMA(64, 32, 33, 34, 35, 36, 37, 38)
WW_WGMMA(72, 36, 37, 38, 39, 40, 41, 42)
WW_WGMMA(80, 40, 41, 42, 43, 44, 45, 46)
WW_WGMMA(88, 44, 45, 46, 47, 48, 49, 50)
WW_WGMMA(96, 48, 49, 50, 51, 52, 53, 54)
WW_WGMMA(104, 52, 53, 54, 55, 56, 57, 58)
WW_WGMMA(112, 56, 57, 58, 59, 60, 61, 62)
WW_WGMMA(120, 60, 61, 62, 63, 64, 65, 66)
WW_WGMMA(128, 64, 65, 66, 67, 68, 69, 70)
WW_WGMMA(136, 68, 69, 70, 71, 72, 73, 74)
WW_WGMMA(144, 72, 73, 74, 75, 76, 77, 78)
WW_WGMMA(152, 76, 77, 78, 79, 80, 81, 82)
WW_WGMMA(160, 80, 81, 82, 83, 84, 85, 86)
WW_WGMMA(168, 84, 85, 86, 87, 88, 89, 90)
WW_WGMMA(176, 88, 89, 90, 91, 92, 93, 94)
WW_WGMMA(184, 92, 93, 94, 95, 96, 97, 98)
WW_WGMMA(192, 96, 97, 98, 99, 100, 101, 102)
WW_WGMMA(200, 100, 101, 102, 103, 104, 105, 106)
WW_WGMMA(208, 104, 105, 106, 107, 108, 109, 110)
WW_WGMMA(216, 108, 109, 110, 111, 112, 113, 114)
WW_WGMMA(224, 112, 113, 114, 115, 116, 117, 118)
WW_WGMMA(232, 116, 117, 118, 119, 120, 121, 122)
WW_WGMMA(240, 120, 121, 122, 123, 124, 125, 126)
WW_WGMMA(248, 124, 125, 126, 127, 128, 129, 130)
WW_WGMMA(256, 128, 129, 130, 131, 132, 133, 134)
}  // namespace ww::sm90
