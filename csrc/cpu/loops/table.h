// Inside one instruction set: the names that the build gives its table.
#pragma once

#include "../loops.h"

#define PK_JOIN_(a, b) a##b
#define PK_JOIN(a, b) PK_JOIN_(a, b)
#define PK_STRING_(a) #a
#define PK_STRING(a) PK_STRING_(a)
#define PK_ISA_FUNCTION(name) PK_JOIN(PK_JOIN(name, _), PK_ISA)

namespace pk {
void PK_ISA_FUNCTION(fill_operations)(Loops &loops);
void PK_ISA_FUNCTION(fill_casts)(Loops &loops);
}  // namespace pk
