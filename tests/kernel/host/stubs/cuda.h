// The part of the driver's header that pure kernel headers use, for a compiler without CUDA.
#pragma once

struct CUtensorMap {};
