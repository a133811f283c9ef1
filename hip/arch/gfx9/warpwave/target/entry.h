// gfx90a, gfx942: wave of 64, MFMA.
#pragma once
#include <warpwave/hip/base.h>
static_assert(ww::hip::kWave == 64);
#include <warpwave/hip/entry.h>
