#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/jinja/value.h"

namespace lathe::jinja {

/// Line and column, from 1.
struct Place {
  int line = 1;
  int column = 1;
};

/// What stops parsing or rendering; caught where the library ends.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& message) : std::runtime_error(message) {}
  Failure(const std::string& message, Place where)
      : std::runtime_error(message), place(where), has_place(true) {}

  Place place;
  bool has_place = false;
};

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Argument {
  std::string name;  ///< empty: positional
  ExpressionPtr value;
};

struct Expression {
  enum class Kind : std::uint8_t {
    kLiteral,
    kName,
    kList,
    kDict,         ///< parts: key, value, key, value, ...
    kUnary,        ///< text: "-", "+", "not"
    kBinary,       ///< text: the operator
    kConditional,  ///< parts: condition, value, other value or nullptr
    kAttribute,    ///< parts: object; text: its name
    kSubscript,    ///< parts: object, index
    kSlice,        ///< parts: object, from, to, step, each may be nullptr
    kCall,         ///< parts: callee
    kFilter,       ///< parts: value; text: its name
    kTest,         ///< parts: value; text: its name
  };
  Kind kind = Kind::kLiteral;
  Place place;
  std::string text;
  Value literal;
  std::vector<ExpressionPtr> parts;
  std::vector<Argument> arguments;
};

struct Statement;
using Block = std::vector<Statement>;

struct Statement {
  enum class Kind : std::uint8_t {
    kText,      ///< text
    kOutput,    ///< value
    kIf,        ///< value; body, otherwise
    kFor,       ///< targets in value; condition; body, otherwise
    kSet,       ///< targets = value; with an attribute of a namespace: targets = {name, attribute}
    kSetBlock,  ///< targets = body, filtered by `value` where it is there (its innermost operand is the body)
    kMacro,     ///< text: its name; parameters; body
    kScope,     ///< body
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  Place place;
  std::string text;
  std::vector<std::string> targets;
  bool sets_attribute = false;
  ExpressionPtr value;
  ExpressionPtr condition;
  std::vector<Argument> parameters;  ///< with defaults
  Block body;
  Block otherwise;
};

/// The template's statements, with blocks' white space trimmed as Hugging Face's environment does
/// (trim_blocks, lstrip_blocks). Throws Failure.
Block parse(std::string_view source);

}  // namespace lathe::jinja
