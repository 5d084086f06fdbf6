// What every FlashCore library exports. Include it in exactly one translation unit of a library.
#pragma once

#include "flashcore/core/status.h"

constexpr int kFlashcoreAbiVersion = 1;

extern "C" __attribute__((visibility("default"))) inline __attribute__((used)) int flashcore_abi_version() {
    return kFlashcoreAbiVersion;
}

extern "C" __attribute__((visibility("default"))) inline __attribute__((used)) const char* flashcore_error_string() {
    return flashcore::last_sentence();
}
