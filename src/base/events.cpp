#include "base/events.h"

namespace lathe {

EventSink& null_sink() {
  static NullSink sink;
  return sink;
}

}  // namespace lathe
