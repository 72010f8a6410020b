#pragma once

#include "lathe/cpu/transpose.h"

namespace lathe {}  // namespace lathe
