// Numbers from environment variables.
#include "environment.h"

#include <cmath>
#include <cstdlib>
#include <string>

#include "status.h"

namespace pk {

int64_t integer_from_environment(const char *variable, const char *quantity, int64_t default_value,
                                 int64_t min_value) {
    const char *text = std::getenv(variable);
    if (text == nullptr || *text == '\0') return default_value;
    char *end = nullptr;
    const double number = std::strtod(text, &end);
    const std::string units = "KMG", unit = end;
    const size_t unit_index = unit.size() == 1 ? units.find(unit) : std::string::npos;
    const bool is_valid = end != text && (unit.empty() || unit_index != std::string::npos);
    const double value = unit.empty() ? number : std::ldexp(number, 10 * (int(unit_index) + 1));
    if (!is_valid || !(value >= double(min_value)) || value > 0x1p60) {
        fail(PK_INVALID_ARGUMENT, std::string(variable) + " is '" + text + "'; set it to " + quantity +
                                      ", as 512M or 2G, of " + std::to_string(min_value) +
                                      " at least, or unset it");
    }
    return int64_t(value);
}

}  // namespace pk
