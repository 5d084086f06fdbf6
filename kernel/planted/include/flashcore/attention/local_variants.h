// As variants.h: none of these.
#pragma once

#define FLASHCORE_ATTENTION_LOCAL_VARIANTS(X)
