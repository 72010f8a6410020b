#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
