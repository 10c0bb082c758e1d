#include "optiml_cuda_names.h"
