#pragma once
#include <warpwave/hip/rows.h>
