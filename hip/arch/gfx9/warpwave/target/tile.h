#pragma once
#include <warpwave/hip/tile.h>
