#include "policy/catalog/emit/epilogue.h"

#include "policy/catalog/emit/terms.h"

namespace lathe::catalog {

Epilogue emit_epilogue(const Site& site, Program& program, const std::vector<Loop>& loops,
                       const std::vector<std::string>& indices, const std::string& given,
                       const std::string& variable, Elements elements) {
  const Graph& graph = site.graph;
  const Terms terms = collect_terms(graph, site.group, loops, given);
  const bool vectors = elements == Elements::kVectors;
  Epilogue epilogue;
  for (std::size_t t = 0; t < terms.list.size(); ++t) {
    const Term& term = terms.list[t];
    const bool iota = graph.iotas.contains(term.value);
    const bool leaf = term.kind == Term::Kind::kLeaf && !iota;
    const std::string at = leaf || term.stored ? program.parameter(term.value) : "";
    const std::string where = element(graph, site.group, loops, term.value, indices);
    const bool scalar =
        graph.is_input(term.value) && graph.task->find_tensor(term.value)->role == Role::kScalar;
    const Holes names = {{"type", vectors ? "f32v" : "float"},
                         {"name", terms.name(static_cast<int>(t))},
                         {"at", at},
                         {"where", where}};
    const auto declare = [&](std::string_view statement, const Holes& holes = {}) {
      epilogue.code += expand(statement, holes, names);
    };
    if (term.kind == Term::Kind::kGiven) {
      declare("const $type $name = $variable;\n", {{"variable", variable}});
    } else if (term.kind == Term::Kind::kApply) {
      declare("const $type $name = $formula;\n", {{"formula", formula_text(terms, term)}});
      epilogue.heavy = epilogue.heavy || term.heavy;
    } else if (iota) {
      declare("const $type $name = $index;\n",
              {{"index", iota_text(site.group, loops, term, indices, vectors)}});
    } else if (scalar) {
      declare("const $type $name(static_cast<float>($at));\n");
    } else if (term.runs.back() && vectors) {
      declare("const $type $name = load($at + $where, lanes);\n");
    } else {
      declare("const $type $name(static_cast<float>($at[$where]));\n");
    }
    if (leaf) epilogue.bytes += 4 * site.count(graph.type_of(term.value).shape);
    if (!term.stored) continue;
    declare(vectors ? "store($at + $where, $name, lanes);\n" : "$at[$where] = $name;\n");
    epilogue.written.insert(program.buffer(term.value));
    epilogue.bytes += 4 * site.count(graph.type_of(term.value).shape);
  }
  return epilogue;
}

}  // namespace lathe::catalog
