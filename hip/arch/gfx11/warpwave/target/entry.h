// gfx1100: wave of 32, WMMA.
#pragma once
#include <warpwave/hip/base.h>
static_assert(ww::hip::kWave == 32);
#include <warpwave/hip/entry.h>
