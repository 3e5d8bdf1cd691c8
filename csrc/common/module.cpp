// Checks the arguments of pk_module_*.
#include "module.h"

#include <algorithm>
#include <cstring>

#include "rounding.h"

namespace pk::kernels {

Parameters::Parameters(const pk_parameter *parameters, int64_t count) {
    require(count >= 0 && count <= PK_MAX_PARAMETERS, "parameter_count is not from 0 to PK_MAX_PARAMETERS");
    require(count == 0 || parameters != nullptr, "parameters is a null pointer");
    of.assign(parameters, parameters + count);
    for (const pk_parameter &parameter : of)
        require(parameter.itemsize >= 0, "a parameter has a negative itemsize");
}

std::string Parameters::label(size_t index) const {
    if (index < of.size() && of[index].label[0] != '\0')
        return "'" + std::string(of[index].label, strnlen(of[index].label, sizeof(of[index].label))) + "'";
    return "number " + std::to_string(index + 1);
}

void require_image(const pk_image *image, const uint64_t *module) {
    require(module != nullptr, "module is a null pointer");
    require(image != nullptr && image->address != 0 && image->bytes > 0, "an image has no bytes");
}

std::string checked_name(const uint8_t *name, int64_t bytes, const char *kind) {
    if (name == nullptr || bytes <= 0) fail(PK_INVALID_ARGUMENT, std::string(kind) + " has no name");
    return std::string(reinterpret_cast<const char *>(name), size_t(bytes));
}

const pk_launch &checked_launch(const pk_launch *launch) {
    require(launch != nullptr, "launch is a null pointer");
    require(launch->block_limit >= 0, "launch.block_limit is negative");
    return *launch;
}

static int64_t space_of(int64_t bytes) { return align_up(bytes, PARAMETER_ALIGNMENT); }

LaunchRequest::LaunchRequest(const pk_launch &launch, const std::string &name, const pk_kernel_limits &limits,
                             const uint8_t *parameters, int64_t bytes)
    : shape{} {
    std::copy(launch.grid, launch.grid + 3, shape.grid);
    std::copy(launch.block, launch.block + 3, shape.block);
    require_shape(name, shape, launch.shared, limits);
    require(bytes >= 0 && bytes % PARAMETER_ALIGNMENT == 0,
            "the size of the parameters is no multiple of 16");
    require(bytes == 0 || parameters != nullptr, "parameters is a null pointer");
    int64_t offset = 0;
    const auto add = [&](int64_t size) {
        arguments.push_back(const_cast<uint8_t *>(parameters + offset));
        offset += space_of(size);
    };
    if (limits.parameters < 0) {  // unknown: each has at most 16 bytes
        while (offset < bytes) add(PARAMETER_ALIGNMENT);
        return;
    }
    arguments.reserve(size_t(limits.parameters));
    for (int64_t i = 0; i < limits.parameters; ++i) add(limits.parameter_bytes[i]);
    if (offset != bytes)
        fail(PK_INVALID_ARGUMENT, name + ": its " + std::to_string(limits.parameters) + " parameters take " +
                                      std::to_string(offset) + " bytes, of which the launch has " +
                                      std::to_string(bytes));
}

void require_printed(const uint8_t *text, int64_t capacity, const int64_t *length) {
    require(length != nullptr, "length is a null pointer");
    require(capacity >= 0 && (capacity == 0 || text != nullptr),
            "capacity is negative, or text is a null pointer");
}

void fail_no_kernel(const std::string &name) {
    fail(PK_INVALID_ARGUMENT, "the image has no kernel '" + name + "'");
}

void fail_no_attribute(int32_t attribute) {
    fail(PK_INVALID_ARGUMENT,
         "a kernel has no attribute " + std::to_string(attribute) + ", or not one that can be set");
}

}  // namespace pk::kernels
