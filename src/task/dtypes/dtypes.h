#pragma once

#include "task/dtype.h"

/// One number format a file; dtypes/registry.cpp lists them in DType's order.
namespace lathe::dtypes {

DTypeInfo fp64();
DTypeInfo fp32();
DTypeInfo fp16();
DTypeInfo bf16();
DTypeInfo fp8e4m3();
DTypeInfo int8();
DTypeInfo int32();
DTypeInfo int64();
DTypeInfo boolean();

}  // namespace lathe::dtypes
