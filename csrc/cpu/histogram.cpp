#include "common/histogram_entries.h"
#include "loops.h"

namespace pk {

namespace {

struct OnCpu {
    static const BinLoops &loops() { return pk::loops().bins; }
    static void count(const Counting &counting, Call &call, int64_t *counts) {
        count_on_host(counting, loops(), call, counts);
    }
    static bool count_kept(const Layout &, uint64_t, int64_t, Call &, int64_t *) { return false; }
    static void digitize(const Layout &layout, const pk_bins &bins, bool right, bool decreasing, Call &call) {
        digitize_on_host(layout, bins, right, decreasing, loops(), call);
    }
};

}  // namespace

}  // namespace pk

PK_HISTOGRAM_ENTRIES(pk::OnCpu)
