#include "cli/program.h"

// `lathe` starts this program for its verbs `serve` and `worker`: nothing else needs what the
// service is made of.
int main(int argc, char** argv) {
  using namespace lathe::cli;
  constexpr AddVerb kVerbs[] = {add_serve, add_worker};
  return run_program(argc, argv, kVerbs);
}
