#pragma once

namespace lathe {

/// The page's style sheet: light and dark by the reader's preference, readable from 360 pixels on.
extern const char* const kPageStyle;

}  // namespace lathe
