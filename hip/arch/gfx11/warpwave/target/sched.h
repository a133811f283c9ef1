#pragma once
#include <warpwave/hip/sched.h>
