// What the user's kernels leave behind from call to call.
#pragma once

namespace pk::kernels {

// Gives back modules and streams that no call uses.
void release();

}  // namespace pk::kernels
