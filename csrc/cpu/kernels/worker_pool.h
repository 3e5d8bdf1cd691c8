// Workers, which are kept from launch to launch with their stacks. The stacks of all are bounded.
#pragma once

#include <cstdint>
#include <memory>

#include "block_executor.h"

namespace pk::kernels {

// Borrows a worker while it lives.
class WorkerLease {
   public:
    WorkerLease();
    ~WorkerLease();
    WorkerLease(const WorkerLease &) = delete;
    WorkerLease &operator=(const WorkerLease &) = delete;
    BlockExecutor &operator*() { return *worker_; }
    BlockExecutor *operator->() { return worker_.get(); }

   private:
    std::unique_ptr<BlockExecutor> worker_;
};

// Has so many stacks be the worker's, if there are as many; those of workers that nobody borrows are given up
// for them.
bool reserve_stacks(BlockExecutor &worker, int64_t count);

void release_workers();

}  // namespace pk::kernels
