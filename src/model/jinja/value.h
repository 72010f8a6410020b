#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lathe::jinja {

constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;  ///< of one text that a template makes

struct Statement;
class Value;

struct Undefined {
  std::string name;  ///< of what is missing, for errors
};
struct None {};
using List = std::vector<Value>;
/// In the order of insertion, as Python's.
using Dict = std::vector<std::pair<Value, Value>>;
/// What namespace() makes: the one kind of value that changes.
struct Namespace {
  std::vector<std::pair<std::string, Value>> members;
};
struct ListNode;
struct DictNode;
/// A macro, a function of the environment, or a method of `self`.
struct Callable {
  std::string name;
  const Statement* macro = nullptr;
  std::shared_ptr<const Value> self;
};

/// A value of Python's, immutable but for namespaces. Containers nest to a bounded depth and hold
/// no namespaces, so no value contains itself.
class Value {
 public:
  using Data =
      std::variant<Undefined, None, bool, std::int64_t, double, std::string, std::shared_ptr<const ListNode>,
                   std::shared_ptr<const DictNode>, std::shared_ptr<Namespace>, Callable>;

  Value() : data_(Undefined{}) {}
  Value(Data data) : data_(std::move(data)) {}
  static Value undefined(std::string name) { return Value(Data(Undefined{std::move(name)})); }
  static Value none() { return Value(Data(None{})); }
  static Value of(std::string text) { return Value(Data(std::move(text))); }
  static Value of(std::int64_t number) { return Value(Data(number)); }
  static Value of(bool truth) { return Value(Data(truth)); }
  static Value of(double number) { return Value(Data(number)); }
  static Value of(List list);  ///< throws Failure beyond the depth
  static Value of(Dict dict);
  /// Objects keep their order. Throws Failure beyond the depth and for integers beyond 63 bits.
  static Value of(const nlohmann::ordered_json& json);

  template <class T>
  const T* get() const {
    return std::get_if<T>(&data_);
  }
  const std::string* text() const { return get<std::string>(); }
  const List* list() const;
  const Dict* dict() const;
  Namespace* names() const {
    const auto* pointer = get<std::shared_ptr<Namespace>>();
    return pointer == nullptr ? nullptr : pointer->get();
  }
  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return get<None>() != nullptr; }
  bool is_number() const { return get<std::int64_t>() || get<double>() || get<bool>(); }
  double number() const;         ///< of a number
  std::int64_t integer() const;  ///< of an integer or a truth; else throws Failure

  bool truth() const;
  std::string_view type_name() const;  ///< Python's
  std::string to_text() const;         ///< str()
  std::string to_repr() const;         ///< repr()
  /// json.dumps(ensure_ascii=False); `indent` < 0: one line.
  std::string to_json(int indent) const;
  const Value* find(std::string_view key) const;  ///< of a dict
  int depth() const;
  /// What reading all of it costs: about the bytes of text over eight, plus one for each value.
  /// Saturates, for shared parts count as often as they occur.
  std::uint64_t weight() const;

 private:
  Data data_;
};

struct ListNode {
  List elements;
  int depth;
  std::uint64_t weight;
};
struct DictNode {
  Dict members;
  int depth;
  std::uint64_t weight;
};

bool equal(const Value& a, const Value& b);
/// Whether a < b; throws Failure for values without an order.
bool less(const Value& a, const Value& b);
/// The elements that a loop over it meets; throws Failure if it is not iterable.
List elements_of(const Value& value);

/// Characters of UTF-8, as Python counts and cuts them.
std::vector<std::string_view> characters_of(std::string_view text);

}  // namespace lathe::jinja
