#include "histogram_loops_of.h"

namespace pk {

const BinLoops &plain_bin_loops() {
    static const BinLoops made = [] {
        BinLoops loops{};
        fill_all(loops);
        return loops;
    }();
    return made;
}

}  // namespace pk
