// pk_release for user kernels.
#pragma once

namespace pk::kernels {

// Frees the modules and executors that are not in use.
void release();

}  // namespace pk::kernels
