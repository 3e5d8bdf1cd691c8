#pragma once

namespace pk::kernels {

// Gives back what is kept for kernels and not in use.
void release();

}  // namespace pk::kernels
