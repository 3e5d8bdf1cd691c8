// Workers, which are kept from launch to launch with their stacks. The stacks of all are bounded.
#pragma once

#include <cstdint>
#include <memory>

#include "block_executor.h"

namespace pk::kernels {

// Borrows a worker while it lives.
class Lent {
   public:
    Lent();
    ~Lent();
    Lent(const Lent &) = delete;
    Lent &operator=(const Lent &) = delete;
    Worker &operator*() { return *worker_; }
    Worker *operator->() { return worker_.get(); }

   private:
    std::unique_ptr<Worker> worker_;
};

// Has so many stacks be the worker's, if there are as many; those of workers that nobody borrows are given up
// for them.
bool take_stacks(Worker &worker, int64_t count);

void release_workers();

}  // namespace pk::kernels
