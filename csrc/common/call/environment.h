// What the environment sets.
#pragma once

#include <cstdint>

namespace pk {

// A number from the environment, with a K, M or G behind it or none; `what` it is.
int64_t from_environment(const char *variable, const char *what, int64_t usual, int64_t least);

}  // namespace pk
