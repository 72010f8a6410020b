#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace lathe::cli {

struct VerbName {
  const char* name;
  const char* about;
};
// Verbs of programs beside `lathe`, which lists them and becomes the program.
inline constexpr VerbName kGemm{"gemm", "Half-precision matrix products: tune, measure and export a library"};
inline constexpr VerbName kData{"data", "Make verified data to train models on"};
inline constexpr VerbName kTrain{
    "train", "Train a policy by a recipe: by reinforcement learning, or a language model by examples"};
inline constexpr VerbName kPolicy{"policy", "Examine policies"};
inline constexpr VerbName kServe{"serve", "Evaluate for clients over HTTP"};
inline constexpr VerbName kWorker{"worker", "Evaluate for a lathe serve on another machine"};

/// Each verb adds its subcommand and says, through `run`, what to do when it was chosen.
using Run = std::function<int()>;
void add_optimize(CLI::App& app, Run& run);
void add_eval(CLI::App& app, Run& run);
void add_tasks(CLI::App& app, Run& run);
void add_report(CLI::App& app, Run& run);
void add_doctor(CLI::App& app, Run& run);
void add_export(CLI::App& app, Run& run);
void add_runs(CLI::App& app, Run& run);
void add_propose(CLI::App& app, Run& run);
void add_build(CLI::App& app, Run& run);
void add_gemm(CLI::App& app, Run& run);
void add_serve(CLI::App& app, Run& run);
void add_data(CLI::App& app, Run& run);
void add_policy(CLI::App& app, Run& run);
void add_naive_verb(CLI::App& policy, Run& run);
void add_train(CLI::App& app, Run& run);
void add_worker(CLI::App& app, Run& run);

}  // namespace lathe::cli
