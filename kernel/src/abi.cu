// What every FlashCore library exports, whatever its operations are.
#include "flashcore/core/status.h"

namespace {
constexpr int kAbiVersion = 1;  // raised with every change of an argument struct or of a function's meaning
}

extern "C" int flashcore_abi_version() { return kAbiVersion; }

extern "C" const char* flashcore_error_string() { return flashcore::last_sentence(); }
