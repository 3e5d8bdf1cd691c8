// Modules that outlive a call: the checked arguments of pk_module_*, for both engines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/kernels.h"
#include "pycudakit.h"

namespace pk::kernels {

constexpr int64_t PARAMETER_ALIGNMENT = 16;
constexpr int64_t MAX_PRINTED_BYTES = int64_t(1) << 20;

// The caller's description of a kernel's parameters.
struct Parameters {
    Parameters(const pk_parameter *parameters, int64_t count);

    std::vector<pk_parameter> of;
    bool is_pointer(size_t index) const { return index < of.size() && of[index].itemsize != 0; }
    std::string label(size_t index) const;
};

void require_image(const pk_image *image, const uint64_t *module);
std::string checked_name(const uint8_t *name, int64_t bytes, const char *kind);

// A checked launch: its shape and its parameters fit the kernel.
struct LaunchRequest {
    LaunchRequest(const pk_launch &launch, const std::string &name, const pk_kernel_limits &limits,
                  const uint8_t *parameters, int64_t bytes);

    Shape shape;
    std::vector<void *> arguments;  // the address of each parameter's value
};

const pk_launch &checked_launch(const pk_launch *launch);
void require_printed(const uint8_t *text, int64_t capacity, const int64_t *length);

[[noreturn]] void fail_no_kernel(const std::string &name);
[[noreturn]] void fail_no_attribute(int32_t attribute);

}  // namespace pk::kernels
