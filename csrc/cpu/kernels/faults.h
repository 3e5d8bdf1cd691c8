// Faults of kernels: accesses of memory that does not exist, and divisions of integers by zero.
#pragma once

namespace pk::kernels {

// Installs the signal handlers, once in a process, by which a fault in a kernel's own code ends the kernel
// instead of the process: the launch fails. Other faults go to the handlers that were installed before. Also
// unblocks the signals on the calling thread.
void catch_faults();

}  // namespace pk::kernels
