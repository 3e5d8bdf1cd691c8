// The fast path of bins of equal width, and the loops for baseline instructions.
#include "histogram_loops_of.h"

#include <algorithm>
#include <cmath>

namespace pk {

// An upper bound for the distance of the edges from their ideal positions, and for the rounding of both
// formulas, in bins.
template <class Edge>
static double margin_of(const pk_bins &bins, double scale, double epsilon) {
    const Edge *const edges = reinterpret_cast<const Edge *>(bins.edges);
    double off = 0, largest = 0;
    for (int64_t i = 0; i <= bins.count; ++i) {
        const double edge = edges[i];
        off = std::max(off, std::fabs((edge - bins.first) * scale - double(i)));
        largest = std::max(largest, std::fabs(edge));
    }
    constexpr double DOUBLES = 0x1p-52;
    const double margin =
        off + 16 * epsilon * double(bins.count) + 16 * DOUBLES * (double(bins.count) + largest * scale);
    return margin < 0.4 ? margin : 1;  // also if it is NaN
}

UniformFastPath::UniformFastPath(const pk_bins &bins) : scale(double(bins.count) / bins.width) {
    constexpr double FLOATS = 0x1p-23, DOUBLES = 0x1p-52, RARE = 1.0 / 512;
    if (bins.type == PK_FLOAT16 || !std::isfinite(float(scale)) || !(std::fabs(scale) > 1e-30)) return;
    if (bins.type == PK_FLOAT64) {
        in_double = true;
        margin = margin_of<double>(bins, scale, DOUBLES);
        return;
    }
    // The difference is computed in float in any case.
    margin = margin_of<float>(bins, scale, FLOATS);
    in_double = margin > RARE;
}

const BinLoops &plain_bin_loops() {
    static const BinLoops made = [] {
        BinLoops loops{};
        fill_all(loops);
        return loops;
    }();
    return made;
}

}  // namespace pk
