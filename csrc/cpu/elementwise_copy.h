// Programs that only copy, which need no registers.
#pragma once

#include "common/elementwise.h"

namespace pk {

// Copies all elements and returns true if the program loads one operand and stores it to another, dense one.
bool copy(const Evaluation &evaluation, Call &call, pk_range range);

}  // namespace pk
