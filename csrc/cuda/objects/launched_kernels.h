// The kernels that were launched since the last synchronization, for the message of a failure.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "common/call/status.h"

namespace pk::kernels {

// The number of synchronizations of a device with the host, plus 1.
inline std::atomic<uint64_t> synchronizations{1};

// Return the names of the functions that were launched since the last synchronization: "kernel 'a' or
// kernel 'b'"; "" if there are none.
std::string launched_kernels();

// Run body(), which waits for work of a device. A failure of the device gets the names of the kernels.
// `waits_for_all` tells whether no earlier launch can fail any more.
template <class Body>
void synchronizing(bool waits_for_all, Body body) {
    const uint64_t before = synchronizations;
    try {
        body();
    } catch (const Failure &failure) {
        const std::string names = failure.status() == PK_DEVICE_ERROR ? launched_kernels() : "";
        if (names.empty()) throw;
        fail(PK_DEVICE_ERROR, names + ": " + failure.what());
    }
    if (waits_for_all) {
        uint64_t expected = before;
        synchronizations.compare_exchange_strong(expected, before + 1);
    }
}

}  // namespace pk::kernels
