#include "cache_flush.h"

#include "worker_pool.h"
#include "module_cache.h"

namespace pk::kernels {

void release() {
    release_workers();
    release_modules();
}

}  // namespace pk::kernels
