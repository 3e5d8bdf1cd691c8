// Numbers from environment variables.
#pragma once

#include <cstdint>

namespace pk {

// Returns the value of an environment variable, or `default_value` if the variable is unset. A value is a
// number with an optional suffix: K for 1024, M for 1024^2 or G for 1024^3. Throws if it is malformed or
// below `min_value`; the message says "set it to <quantity>".
int64_t integer_from_environment(const char *variable, const char *quantity, int64_t default_value,
                                 int64_t min_value);

}  // namespace pk
