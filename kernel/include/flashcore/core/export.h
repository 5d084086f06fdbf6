// Marks what a library exports. Everything else is hidden (`hidden_symbols` in the suite), so two libraries of one process share
// no variable.
#pragma once

#define FLASHCORE_API extern "C" __attribute__((visibility("default")))
