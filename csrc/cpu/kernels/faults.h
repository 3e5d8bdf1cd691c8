// Faults of kernels: accesses of unmapped memory, and divisions that the processor refuses.
#pragma once

#include <cstdint>
#include <string>

namespace pk::kernels {

// A fault, as a signal's handler gets it.
struct Fault {
    int number = 0;  // of the signal; 0: no fault
    int code = 0;    // si_code
    uint64_t address = 0;
};

// The kernel's error: "accesses unmapped memory at ...".
std::string describe(const Fault &fault);

// Installs the signal handlers, once in a process, by which a fault in a kernel's own code ends the kernel
// instead of the process: the launch fails. Other faults go to the handlers that were installed before. Also
// unblocks the signals on the calling thread.
void catch_faults();

}  // namespace pk::kernels
