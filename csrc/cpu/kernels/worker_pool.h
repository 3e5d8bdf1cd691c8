// A pool of block executors, which keep their fiber stacks from launch to launch. The number of all stacks is
// limited.
#pragma once

#include <cstdint>
#include <memory>

#include "block_executor.h"

namespace pk::kernels {

// Takes an executor from the pool for its lifetime.
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

// Raises the executor's quota of fiber stacks to `count`. If the process limit is reached, the executor
// adopts the stacks of idle ones: making stacks takes the system longer than the kernels take that wait for
// them. Returns false if that is not enough.
bool reserve_stacks(BlockExecutor &worker, int64_t count);

// How often executors have given stacks back.
int64_t stack_returns();

void release_workers();

}  // namespace pk::kernels
