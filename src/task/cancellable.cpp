#include "task/cancellable.h"

namespace lathe {
namespace {

class CancellableReference final : public Reference {
 public:
  CancellableReference(const Reference& inner, CancelToken cancel)
      : inner_(inner), cancel_(std::move(cancel)) {}

  Result<std::vector<Expected>> evaluate(const BoundTask& task, std::span<const HostTensor> inputs,
                                         const Numerics& numerics) const override {
    if (cancel_.cancelled()) return cancelled_error();
    return inner_.evaluate_unless(cancel_, task, inputs, numerics);
  }

  Result<std::vector<Expected>> evaluate_part(const BoundTask& task, std::span<const HostTensor> inputs,
                                              const Numerics& numerics, const Part& part) const override {
    if (cancel_.cancelled()) return cancelled_error();
    if (!(inner_.part_share(task, part.elements) < 1))
      return inner_.evaluate_unless(cancel_, task, inputs, numerics);
    return inner_.evaluate_part(task, inputs, numerics, part);
  }

  double part_share(const BoundTask& task, double elements) const override {
    return inner_.part_share(task, elements);
  }

 private:
  const Reference& inner_;
  CancelToken cancel_;
};

}  // namespace

Error cancelled_error() { return {ErrorCode::kCancelled, "the evaluation was cancelled"}; }

std::unique_ptr<Reference> make_cancellable(const Reference& inner, CancelToken cancel) {
  return std::make_unique<CancellableReference>(inner, std::move(cancel));
}

}  // namespace lathe
