// Stands before the list of that name: a build with a planted slow-down has these two entry functions alone.
#pragma once

#define FLASHCORE_ATTENTION_VARIANTS(X) \
    X(flashcore_planted_d64_variant)    \
    X(flashcore_planted_d128_variant)
