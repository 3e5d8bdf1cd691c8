// pk_release for user kernels.
#include "cache_flush.h"

#include "module_cache.h"
#include "worker_pool.h"

namespace pk::kernels {

void release() {
    release_workers();
    release_modules();
}

}  // namespace pk::kernels
