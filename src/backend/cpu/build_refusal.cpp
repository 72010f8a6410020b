#include "backend/cpu/build_refusal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <vector>

#include "backend/cpu/imports.h"
#include "backend/cpu/object_symbols.h"

namespace lathe {
namespace {

constexpr std::size_t kShownCauses = 3;
constexpr std::string_view kCallable =
    "a kernel may call C's mathematical functions, memcpy, memmove, memset and memcmp; write others out";

using Texts = std::initializer_list<std::string_view>;

/// Functions that candidates must not import, by what one writes to get them.
struct ImportGroup {
  std::string_view cause;
  std::string_view remedy;
  std::span<const std::string_view> prefixes;  ///< of the imports; with "$": the whole name
  std::span<const std::string_view> words;     ///< of the source
};

constexpr auto kHeapImports = std::to_array<std::string_view>(
    {"_Zn", "_ZSt7nothrow", "_ZSt17__throw_bad_alloc", "_ZSt20__throw_length_error",
     "_ZSt28__throw_bad_array", "_ZNSt7__cxx1112basic_string", "_ZNKSt7__cxx1112basic_string", "malloc$",
     "calloc$", "realloc$", "free$", "aligned_alloc$", "posix_memalign$", "memalign$", "strdup$"});
constexpr auto kHeapWords = std::to_array<std::string_view>({"new",           "malloc",
                                                             "calloc",        "realloc",
                                                             "aligned_alloc", "posix_memalign",
                                                             "_mm_malloc",    "vector",
                                                             "string",        "to_string",
                                                             "function",      "stable_sort",
                                                             "inplace_merge", "stable_partition",
                                                             "make_unique",   "make_shared",
                                                             "unique_ptr",    "shared_ptr",
                                                             "deque",         "list",
                                                             "map",           "set",
                                                             "unordered_map", "unordered_set",
                                                             "valarray",      "priority_queue",
                                                             "free"});
constexpr auto kPrintImports =
    std::to_array<std::string_view>({"printf$",   "puts$",          "putchar$",
                                     "fprintf$",  "vprintf$",       "snprintf$",
                                     "sprintf$",  "fputs$",         "fputc$",
                                     "putc$",     "fwrite$",        "fflush$",
                                     "perror$",   "stdout$",        "stderr$",
                                     "_ZSt4cout", "_ZSt4cerr",      "_ZSt4clog",
                                     "_ZNSo",     "_ZStls",         "_ZSt16__ostream_insert",
                                     "_ZSt4endl", "_ZNSt8ios_base", "_ZNSt9basic_ios"});
constexpr auto kPrintWords =
    std::to_array<std::string_view>({"printf", "puts", "putchar", "fprintf", "snprintf", "sprintf", "fputs",
                                     "fwrite", "fflush", "perror", "cout", "cerr", "clog", "endl"});
constexpr auto kThreadImports =
    std::to_array<std::string_view>({"pthread_", "sem_", "thrd_", "mtx_", "cnd_", "_ZNSt6thread",
                                     "_ZNSt7jthread", "_ZNSt18condition_variable", "_ZNSt13__future",
                                     "_ZSt20__throw_system_error", "__once_proxy", "_ZNSt12__basic_future"});
constexpr auto kThreadWords =
    std::to_array<std::string_view>({"thread", "jthread", "pthread_create", "pthread_t", "async", "mutex",
                                     "condition_variable", "call_once", "future", "thrd_create"});
constexpr auto kOpenMpImports = std::to_array<std::string_view>({"GOMP_", "omp_", "__kmpc_"});
constexpr auto kOpenMpWords =
    std::to_array<std::string_view>({"omp_get_thread_num", "omp_get_num_threads", "omp_get_max_threads",
                                     "omp_set_num_threads", "omp_get_wtime"});
constexpr auto kThrowImports = std::to_array<std::string_view>(
    {"__cxa_throw", "__cxa_allocate_exception", "__cxa_begin_catch", "__cxa_end_catch", "__cxa_rethrow",
     "__cxa_free_exception", "_Unwind_", "__gxx_personality", "_ZSt19__throw", "_ZSt24__throw",
     "_ZNSt13runtime_error", "_ZNSt11logic_error", "_ZNSt9exception", "_ZNSt12out_of_range",
     "_ZNSt16invalid_argument"});
constexpr auto kThrowWords = std::to_array<std::string_view>(
    {"throw", "try", "catch", "runtime_error", "invalid_argument", "out_of_range", "exception"});
constexpr auto kDestructorImports =
    std::to_array<std::string_view>({"__cxa_atexit", "atexit$", "__dso_handle"});
constexpr auto kRandomImports =
    std::to_array<std::string_view>({"rand$", "srand$", "rand_r$", "random$", "srandom$", "drand48$",
                                     "lrand48$", "srand48$", "_ZNSt13random_device"});
constexpr auto kRandomWords = std::to_array<std::string_view>(
    {"rand", "srand", "rand_r", "random", "srandom", "drand48", "lrand48", "srand48", "random_device"});
constexpr auto kEndImports = std::to_array<std::string_view>(
    {"exit$", "_exit$", "_Exit$", "quick_exit$", "longjmp$", "_setjmp$", "__sigsetjmp$", "setjmp$"});
constexpr auto kEndWords =
    std::to_array<std::string_view>({"exit", "_exit", "_Exit", "quick_exit", "longjmp", "setjmp"});
constexpr auto kTypeImports =
    std::to_array<std::string_view>({"__dynamic_cast", "_ZTI", "_ZTVN10__cxxabiv1"});
constexpr auto kTypeWords = std::to_array<std::string_view>({"dynamic_cast", "typeid", "any", "any_cast"});
constexpr auto kVectorMathsImports = std::to_array<std::string_view>({"_ZGV"});
constexpr auto kVectorMathsWords = std::to_array<std::string_view>({"pragma", "optimize"});
constexpr auto kSortImports = std::to_array<std::string_view>({"qsort$", "qsort_r$", "bsearch$"});
constexpr auto kSortWords = std::to_array<std::string_view>({"qsort", "qsort_r", "bsearch"});

constexpr auto kClockImports = std::to_array<std::string_view>(
    {"time$", "clock$", "clock_gettime$", "gettimeofday$", "getenv$", "_ZNSt6chrono"});
constexpr auto kClockWords =
    std::to_array<std::string_view>({"time", "clock", "clock_gettime", "gettimeofday", "getenv", "chrono"});

constexpr std::array<ImportGroup, 12> kGroups = {
    {{"memory is taken from the heap",
      "declare a [[scratch]] buffer in the plan and take it as an argument, or use a local array or "
      "std::array",
      kHeapImports, kHeapWords},
     {"something is printed", "leave it out: nobody sees it", kPrintImports, kPrintWords},
     {"threads are started or wait for each other",
      "leave them out: the plan's items are spread over the threads, each of which calls the kernel with its "
      "own "
      "begin and end",
      kThreadImports, kThreadWords},
     {"OpenMP's library is called",
      "leave it out: the plan's items are spread over the threads, each of which calls the kernel with its "
      "own "
      "begin and end",
      kOpenMpImports, kOpenMpWords},
     {"exceptions are used", "leave them out: kernels are compiled without", kThrowImports, kThrowWords},
     {"a static variable has a destructor, which would run later than the kernel",
      "make it a local variable, or use std::array", kDestructorImports, kHeapWords},
     {"random numbers of the system's are drawn", "use std::mt19937 with a seed of your own", kRandomImports,
      kRandomWords},
     {"the clock or the environment is read", "leave it out: a kernel knows its arguments and nothing else",
      kClockImports, kClockWords},
     {"the kernel ends the process or jumps out of itself", "return", kEndImports, kEndWords},
     {"types are told apart at run time", "leave dynamic_cast and typeid out: kernels are compiled without",
      kTypeImports, kTypeWords},
     {"fast mathematics turned a loop into calls of another library",
      "leave the pragma out and call lathe::exp() and its like of <lathe/cpu.h>, which are vectorised",
      kVectorMathsImports, kVectorMathsWords},
     {"the C library is to sort or search", "use std::sort or std::lower_bound", kSortImports, kSortWords}}};

bool is_word_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool has_word(std::string_view line, std::string_view word) {
  for (std::size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word_byte(line[at - 1])) && (end == line.size() || !is_word_byte(line[end])))
      return true;
  }
  return false;
}

/// A candidate's lines from behind its front matter on, without comments to the end of a line.
class Source {
 public:
  explicit Source(std::string_view text) {
    bool code = text.find("/*lathe") == std::string_view::npos;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, end - at);
      lines_.push_back(code ? line.substr(0, line.find("//")) : std::string_view());
      code = code || line.find("*/") != std::string_view::npos;
      at = end + 1;
    }
  }

  /// The first line that has one of the words and is no #include; 0 for none.
  std::size_t line_of(std::span<const std::string_view> words) const {
    return find([&](std::string_view line) {
      return !is_include(line) &&
             std::ranges::any_of(words, [&](std::string_view word) { return has_word(line, word); });
    });
  }
  std::size_t line_of_word(std::string_view word) const { return line_of({&word, 1}); }
  std::size_t line_of_include(Texts headers) const {
    return find([&](std::string_view line) {
      return is_include(line) && std::ranges::any_of(headers, [&](std::string_view header) {
               return line.find(header) != std::string_view::npos;
             });
    });
  }

 private:
  static bool is_include(std::string_view line) {
    const std::size_t at = line.find_first_not_of(" \t");
    return at != std::string_view::npos && line[at] == '#' && line.find("include") != std::string_view::npos;
  }
  template <class Matches>
  std::size_t find(Matches matches) const {
    const auto found = std::ranges::find_if(lines_, matches);
    return found == lines_.end() ? 0 : static_cast<std::size_t>(found - lines_.begin()) + 1;
  }

  std::vector<std::string_view> lines_;
};

/// " (line 12)", or "" where nothing is known of it.
std::string in_line(std::size_t line) { return line == 0 ? "" : fmt::format(" (line {})", line); }

/// The identifiers that a mangled name may hold, the last first: "buf" of "_ZN1a3bufE".
std::vector<std::string_view> identifiers_in(std::string_view symbol) {
  std::vector<std::string_view> found;
  if (!symbol.starts_with("_Z")) return {symbol};
  for (std::size_t at = 2; at < symbol.size(); ++at) {
    std::size_t length = 0, digits = at;
    while (digits < symbol.size() && symbol[digits] >= '0' && symbol[digits] <= '9' && length < 1000)
      length = 10 * length + static_cast<std::size_t>(symbol[digits++] - '0');
    if (length == 0 || length > symbol.size() - digits) continue;
    found.push_back(symbol.substr(digits, length));
    at = digits + length - 1;
  }
  std::ranges::reverse(found);
  if (found.empty()) found.push_back(symbol);
  return found;
}

/// "'buf' (line 12)".
std::string shown(std::string_view symbol, const Source& source) {
  const auto names = identifiers_in(symbol);
  for (const std::string_view name : names)
    if (const std::size_t line = source.line_of_word(name)) return fmt::format("'{}'{}", name, in_line(line));
  return fmt::format("'{}'", names.front());
}

bool belongs(std::string_view import, const ImportGroup& group) {
  return std::ranges::any_of(group.prefixes, [&](std::string_view prefix) {
    return prefix.ends_with('$') ? import == prefix.substr(0, prefix.size() - 1) : import.starts_with(prefix);
  });
}

std::string text_of_imports(const std::vector<ObjectSymbol>& symbols, const Source& source) {
  std::vector<std::string> causes;
  const auto add = [&](std::string text) {
    if (causes.size() < kShownCauses && std::ranges::find(causes, text) == causes.end())
      causes.push_back(std::move(text));
  };
  std::vector<std::string_view> unknown;
  for (const ObjectSymbol& symbol : symbols)
    if (symbol.kind == ObjectSymbol::Kind::kUndefined &&
        !std::ranges::binary_search(allowed_imports(), symbol.name))
      unknown.push_back(symbol.name);
  for (const ImportGroup& group : kGroups) {
    const auto import =
        std::ranges::find_if(unknown, [&](std::string_view name) { return belongs(name, group); });
    if (import == unknown.end()) continue;
    add(fmt::format("{}{}: {}", group.cause, in_line(source.line_of(group.words)), group.remedy));
    std::erase_if(unknown, [&](std::string_view name) { return belongs(name, group); });
  }
  for (const std::string_view name : unknown)
    add(fmt::format("{} is called and not defined", shown(name, source)));
  if (causes.empty()) return {};
  return fmt::format("{}; {}", fmt::join(causes, "; "), kCallable);
}

bool is_guard(std::string_view name) { return name.starts_with("_ZGV"); }

std::string text_of_writable(const Error& refusal, const std::vector<ObjectSymbol>& symbols,
                             const Source& source) {
  const ObjectSymbol* largest = nullptr;
  for (const ObjectSymbol& symbol : symbols)
    if (symbol.kind == ObjectSymbol::Kind::kVariable && symbol.writable &&
        (!largest || symbol.bytes > largest->bytes))
      largest = &symbol;
  const std::string which =
      largest ? fmt::format("{} has {} bytes: ", shown(largest->name, source), largest->bytes) : "";
  return which + refusal.message + "; " + refusal.hint;
}

std::string text_of_thread_local(const std::vector<ObjectSymbol>& symbols, const Source& source) {
  const auto found = std::ranges::find(symbols, ObjectSymbol::Kind::kThreadLocal, &ObjectSymbol::kind);
  return (found == symbols.end() ? std::string("a variable") : shown(found->name, source)) +
         " is thread_local, and kernels keep nothing from one call to the next; make it a local array, or "
         "declare a [[scratch]] buffer in the plan and index it by the items";
}

std::string text_of_initialiser(const std::vector<ObjectSymbol>& symbols, const Source& source) {
  std::vector<std::string> variables;
  for (const ObjectSymbol& symbol : symbols)
    if (symbol.kind == ObjectSymbol::Kind::kVariable && symbol.writable && symbol.starts_as_zero &&
        symbol.bytes > 0 && !is_guard(symbol.name) && !symbol.name.starts_with("_ZZ") &&
        variables.size() < kShownCauses)
      variables.push_back(shown(symbol.name, source));
  return fmt::format(
      "{} initialised by code that would run when the object is loaded; make it constexpr, or compute it "
      "inside the kernel, or by a launch of its own into a [[scratch]] buffer",
      variables.empty()       ? "a variable is"
      : variables.size() == 1 ? variables.front() + " is"
                              : fmt::format("one of {} is", fmt::join(variables, ", ")));
}

bool has_initialiser(const std::vector<ObjectSymbol>& symbols) {
  return std::ranges::any_of(symbols,
                             [](const auto& symbol) { return symbol.name.starts_with("_GLOBAL__sub_I"); });
}

/// "'_mm256_exp_ps'" of "error: '_mm256_exp_ps' was not declared in this scope", with the quotes
/// that the C locale has.
bool says_undeclared_vector_maths(std::string_view log) {
  for (const std::string_view start : {"'_mm256_", "'_mm512_", "'_mm_"})
    for (const std::string_view function : {"exp", "log", "sin", "cos", "tan", "pow", "erf", "cbrt", "sqrt"})
      if (log.find(fmt::format("{}{}", start, function)) != std::string_view::npos &&
          log.find("was not declared") != std::string_view::npos)
        return true;
  return false;
}

}  // namespace

BuildRefusal explain_refusal(const Error& refusal, std::string_view object, std::string_view text) {
  const Source source(text);
  const std::vector<ObjectSymbol> symbols = symbols_of(object);
  BuildRefusal said{Outcome::kBuildFailed, refusal.reason, {}};
  if (refusal.reason == "unknown_function") {
    said.text = text_of_imports(symbols, source);
  } else if (refusal.reason == "writable_state") {
    said.text = text_of_writable(refusal, symbols, source);
  } else if (refusal.reason == "thread_local") {
    said.text = text_of_thread_local(symbols, source);
  } else if (refusal.reason == "constructor" && has_initialiser(symbols)) {
    said.text = text_of_initialiser(symbols, source);
  } else if (refusal.reason == "constructor" && text.find("__builtin_cpu_") != std::string_view::npos) {
    // libgcc answers by a constructor. Whoever writes the words to be told so of another is refused
    // as well.
    said.reason = "cpu_dispatch";
    said.text =
        "__builtin_cpu_supports needs code that runs when the object is loaded; leave it out: code is "
        "compiled for this machine's processor";
  } else if (refusal.reason != "bad_elf" && refusal.reason != "ifunc") {
    said.outcome = Outcome::kTampered;
  }
  if (said.text.empty()) said.text = refusal.message + "; " + refusal.hint;
  return said;
}

std::string hints_on_log(std::string_view log, std::string_view text) {
  const Source source(text);
  std::string hints;
  const auto says = [&](std::string_view words) { return log.find(words) != std::string_view::npos; };
  const auto hint = [&](const std::string& sentence) { hints += "hint: " + sentence + "\n"; };
  if (says("'__global__'") || says("'__device__'") || says("'__shared__'") || says("'blockIdx'"))
    hint(
        "that is CUDA, and kernels here run on the processor: choose the GPU with --device cuda, or write a "
        "function of items, as docs/candidates.md shows");
  if (says("__dso_handle")) {
    if (const std::size_t line = source.line_of_include({"<iostream>", "bits/stdc++.h"}))
      hint(fmt::format(
          "the #include in line {} brings the standard streams, which are set up by code that runs when the "
          "object is loaded: include what the kernel uses instead, such as <algorithm>, <array>, "
          "<cmath> and <cstdint>",
          line));
    else
      hint(
          fmt::format("a static variable{} has a destructor, as std::vector and std::string have: make it a "
                      "local array, std::array, or a [[scratch]] buffer of the plan",
                      in_line(source.line_of(kHeapWords))));
  }
  const bool disabled = says("exception handling disabled");
  if (disabled && source.line_of_include({"<execution>"}) != 0)
    hint("std::execution's policies need exceptions and threads: leave them out");
  else if (disabled)
    hint(fmt::format(
        "kernels are compiled without exceptions, and no option changes that: leave throw, try and "
        "catch out{}",
        in_line(source.line_of(kThrowWords))));
  if (says("-fno-rtti")) hint("kernels are compiled without dynamic_cast and typeid: leave them out");
  if (says("No such file or directory"))
    hint("a kernel may include <lathe/cpu.h>, <immintrin.h> and the standard library's headers");
  if (says("target specific option mismatch"))
    hint(
        "this machine's processor lacks that instruction: use the vectors of <lathe/cpu.h>, which have its "
        "width, or test __AVX512F__ and its like");
  if (says_undeclared_vector_maths(log))
    hint(
        "that function is of Intel's SVML, which g++ lacks: call lathe::exp() and its like of <lathe/cpu.h>, "
        "which take vectors too");
  if (says("stray '`'")) hint("the text has Markdown's fences: leave the lines with ``` out");
  return hints;
}

}  // namespace lathe
