#include "backend/host/program.h"

#include <gtest/gtest.h>

namespace lathe::host {
namespace {

const std::string kFront = "\"\"\"lathe host = { language = \"python\", entry = \"ModelNew\" }\"\"\"";

TEST(PythonText, CodeBehindTheFrontMatterKeepsItsLines) {
  EXPECT_EQ(python_text(kFront + "class ModelNew:\n    pass\n"), "class ModelNew:\n    pass\n");
  EXPECT_EQ(python_text(kFront + "\"\"\"Its own docstring.\"\"\"\nx = 1\n"),
            "\"\"\"Its own docstring.\"\"\"\nx = 1\n");
  EXPECT_EQ(python_text(kFront + "    x = 1\n"), "    x = 1\n") << "a mistake stays one";
  EXPECT_EQ(python_text("\n\"\"\"lathe\n[host]\r\n\"\"\" # more\nx = 1\n"), "\n\n\r\n # more\nx = 1\n");
}

TEST(PythonText, OtherModulesAreAsTheyWere) {
  for (const std::string& text : {std::string("import torch\n"), std::string(), std::string("\"\"\"lathe"),
                                  std::string("\"\"\"Doc.\"\"\"x\n"), kFront, kFront + "\nx = 1\n",
                                  kFront + "  \r\nx = 1\n", kFront + "; x = 1\n"})
    EXPECT_EQ(python_text(text), text);
  const nlohmann::json described =
      describe_program({.text = kFront + "import torch\n", .entry = "ModelNew"}, {});
  EXPECT_EQ(described["text"], "import torch\n");
}

}  // namespace
}  // namespace lathe::host
