// Inner loops of histograms, for one instruction set.
#include "common/histogram_loops_of.h"
#include "table.h"

namespace pk {

void PK_ISA_FUNCTION(fill_histogram)(Loops &loops) { fill_all(loops.bins); }

}  // namespace pk
