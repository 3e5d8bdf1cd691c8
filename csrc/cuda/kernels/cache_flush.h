// Frees the cached state of user kernels (for pk_release).
#pragma once

namespace pk::kernels {

// Unloads modules and destroys streams that no call uses.
void release();

}  // namespace pk::kernels
