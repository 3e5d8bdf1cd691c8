// Sorting of arrays that lie on a device.
#pragma once

#include "common/sort.h"
#include "cuda/stream/queued.h"

namespace pk {

void sort_there(const SortRequest &request, const Queued &queued);
void sort_there(const ArgsortRequest &request, const Queued &queued);

}  // namespace pk
