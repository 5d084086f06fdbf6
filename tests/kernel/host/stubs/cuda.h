// As much of the driver's header as the kernels' pure headers name, for a compiler that has no CUDA.
#pragma once

struct CUtensorMap {};
