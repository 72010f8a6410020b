#include "cli/program.h"

// `lathe` becomes this program for its verbs that make data, train, compare policies and tune
// matrix products.
int main(int argc, char** argv) {
  using namespace lathe::cli;
  constexpr AddVerb kVerbs[] = {add_gemm, add_data, add_train, add_policy};
  return run_program(argc, argv, kVerbs);
}
