// The families whose requests are prepared for lists that call them several times.
#pragma once

#include <memory>

#include "common/requests.h"

namespace pk {

namespace elementwise {
std::unique_ptr<PreparedRequest> prepare(const pk_request &request);
}

namespace reduction {
std::unique_ptr<PreparedRequest> prepare(const pk_request &request);
}

}  // namespace pk
