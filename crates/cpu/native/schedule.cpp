// The switch of the host target's schedule, for the calling thread.
#include <warpwave/target/base.h>
extern "C" void ww_host_schedule(int choice) { ww::host::schedule = choice; }
