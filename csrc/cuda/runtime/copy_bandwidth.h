// The speed of the link to each GPU, measured once.
#pragma once

#include "pycudakit.h"

namespace pk {

pk_link copy_bandwidth(int device);

}  // namespace pk
