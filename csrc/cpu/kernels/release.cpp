#include "release.h"

#include "block.h"
#include "modules.h"

namespace pk::kernels {

void release() {
    release_workers();
    release_modules();
}

}  // namespace pk::kernels
