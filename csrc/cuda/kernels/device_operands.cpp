// Checks the device arrays of a run of user kernels, and collects their streams.
#include "device_operands.h"

#include <algorithm>
#include <string>

#include "common/call/status.h"
#include "cuda/runtime/execution_context.h"

namespace pk::kernels {

DeviceOperands::DeviceOperands(const Run &run, int device) {
    for (const pk_buffer &buffer : run.buffers) {
        if (buffer.bytes == 0) continue;
        needs_no_memory_ &= is_in_place(buffer);
        if (!is_on_device(buffer)) continue;
        const int array_device = device_of({reinterpret_cast<const void *>(buffer.address)});
        if (array_device != device)
            fail(PK_INVALID_ARGUMENT, "an array is on GPU " + std::to_string(array_device) +
                                          ", and the kernels run on GPU " + std::to_string(device) +
                                          ": name the array's GPU by devices=");
        if (buffer.stream == 0) continue;  // its contents are complete
        const auto stream = reinterpret_cast<cudaStream_t>(buffer.stream);
        if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
    }
}

}  // namespace pk::kernels
