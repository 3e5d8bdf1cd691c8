// The speed of the link to each GPU, measured once.
#pragma once

#include "pycudakit.h"

namespace pk {

pk_link link_speed(int device);

}  // namespace pk
