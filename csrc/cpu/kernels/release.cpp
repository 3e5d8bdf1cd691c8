#include "release.h"

#include "lending.h"
#include "modules.h"

namespace pk::kernels {

void release() {
    release_workers();
    release_modules();
}

}  // namespace pk::kernels
