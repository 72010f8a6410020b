#pragma once

#include "search/strategy.h"

namespace lathe {

struct ContrastOptions {
  int exemplars = 2;          ///< N: of distinct buckets
  int samples = 4;            ///< of each prompt
  double tau = 0.25;          ///< temperature: of natural logarithms of scores
  double bucket_width = 0.1;  ///< of a bucket, in the same unit: scores within 10% are alike
  int islands = 1;            ///< populations that know only their own kernels
  int migrate_every = 32;     ///< evaluations after which each island gets the best kernel of all
};

/// Kernels that passed, in buckets of similar score, the lowest first. Scores are logarithms of the
/// lower bounds of speedups.
struct Bucket {
  double mean = 0;
  History kernels;
};
std::vector<Bucket> score_buckets(const History& history, double bucket_width);

/// `count` exemplars of distinct buckets, or as many as there are buckets, each candidate once:
/// buckets are drawn without replacement with P(B) proportional to exp((mean(B) - mu)/tau), mu the
/// mean of all scores, then a kernel of each uniformly (CUDA-L1). In the order of their scores.
History draw_exemplars(const std::vector<Bucket>& buckets, const ContrastOptions& options, Rng& rng);

/// Contrastive prompts: exemplars with their measured scores, and the demand to say what makes the
/// better one faster before writing a kernel. Until a kernel passes, samples are drawn without
/// exemplars. With islands, batches take turns, and a batch sees its island's kernels and the best
/// of all up to the last migration. Of a policy that can vary kernels, two exemplars are crossed.
/// Errors: counts below one, tau or width that are not positive.
Result<std::unique_ptr<Strategy>> make_contrast(const ContrastOptions& options);

}  // namespace lathe
