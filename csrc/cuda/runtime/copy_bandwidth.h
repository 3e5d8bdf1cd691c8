// The host-to-device and device-to-host copy bandwidth of each GPU, measured once.
#pragma once

#include "pycudakit.h"

namespace pk {

// Return the bandwidths in bytes a second; the first call for a device measures them.
pk_link copy_bandwidth(int device);

}  // namespace pk
