#include "tests/cli/program.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "bench/serve/http_client.h"
#include "task/spec.h"

// The real `lathe serve --device host:cpu --kernelgym` with PyTorch from Debian (python3-torch).
namespace lathe::serve {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kReference = R"(import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_init_inputs():
    return []


def get_inputs():
    return [torch.randn(64, 512)]
)";

/// A kernel in KernelBench's manner.
std::string kernel(const std::string& body, const std::string& before = "") {
  return "import torch\n" + before + "\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n" +
         body;
}

const std::string kRight = kernel(
    "        e = torch.exp(x - x.max(dim=-1, keepdim=True).values)\n"
    "        return e / e.sum(dim=-1, keepdim=True)\n");
const std::string kWrong = kernel("        return torch.zeros_like(x)\n");
const std::string kNoImport = kernel("        return x\n", "import no_such_module\n");
const std::string kNoSyntax = "import torch\n\nclass ModelNew(torch.nn.Module:\n    pass\n";
const std::string kByPointer = kernel(
    "        key = (x.data_ptr(), x.shape)\n"
    "        if key not in known:\n"
    "            known[key] = torch.softmax(x, dim=-1)\n"
    "        return known[key]\n",
    "known = {}\n");
const std::string kCallsReference = kernel(
    "        import gc\n"
    "        for thing in gc.get_objects():\n"
    "            if type(thing).__name__ == 'Model' and isinstance(thing, torch.nn.Module):\n"
    "                return thing(x)\n"
    "        return torch.zeros_like(x)\n");
const std::string kForks =
    kernel("        import os\n        os.fork()\n        return torch.softmax(x, dim=-1)\n");

/// As a trainer sends it, with this device's backend.
json request(const std::string& task_id, const std::string& kernel_code) {
  return {{"task_id", task_id},
          {"reference_code", kReference},
          {"kernel_code", kernel_code},
          {"backend", "cpu"},
          {"num_correct_trials", 5},
          {"num_perf_trials", 100},
          {"timeout", 600},
          {"priority", "normal"},
          {"entry_point", "Model"},
          {"is_valid", false},
          {"verbose_errors", true},
          {"enable_profiling", false},
          {"detect_decoy_kernel", true},
          {"reference_backend", nullptr}};
}

class KernelGymTest : public ProgramTest {
 protected:
  static bool has_torch() {
    const char* const own = std::getenv("LATHE_PYTHON");
    const std::string python = own ? own : "/usr/bin/python3";
    return std::system((python + " -c 'import torch' > /dev/null 2>&1").c_str()) == 0;
  }
  void SetUp() override {
    if (!has_torch()) GTEST_SKIP() << "no PyTorch: apt-get install python3-torch";
    start();
  }
  /// Workers clear what they leave: the folder goes after them.
  void TearDown() override {
    if (!program_) return;
    program_->signal(SIGTERM);
    program_->wait(60);
    helpers_are_gone();
  }
  void start() {
    program_ =
        std::make_unique<Program>(folder_, std::vector<std::string>{"serve", "--port", std::to_string(port_),
                                                                    "--device", "host:cpu", "--kernelgym"});
    ASSERT_TRUE(eventually(
        60, [&] { return program_->out().find('\n') != std::string::npos || !program_->running(); }));
    const std::string out = program_->out();
    ASSERT_NE(out.rfind(':'), std::string::npos) << program_->err();
    port_ = std::atoi(out.c_str() + out.rfind(':') + 1);
  }

  json post(const std::string& path, const json& body, int status = 200) {
    const auto answer = HttpClient(port_).post(path, body.dump());
    EXPECT_TRUE(answer.ok());
    if (!answer.ok()) return {};
    EXPECT_EQ(answer->status, status) << answer->body << program_->err();
    return json::parse(answer->body);
  }
  json get(const std::string& path, int status = 200) {
    const auto answer = HttpClient(port_).get(path);
    EXPECT_TRUE(answer.ok());
    if (!answer.ok()) return {};
    EXPECT_EQ(answer->status, status) << answer->body;
    return json::parse(answer->body);
  }

  int port_ = 0;
  std::unique_ptr<Program> program_;
};

TEST_F(KernelGymTest, RightWrongBrokenAndCheatingKernelsAsATrainerSeesThem) {
  const json right = post("/evaluate", request("right", kRight));
  EXPECT_EQ(right["status"], "completed");
  EXPECT_EQ(right["compiled"], true);
  EXPECT_EQ(right["correctness"], true) << right;
  EXPECT_EQ(right["decoy_kernel"], false);
  EXPECT_GT(right["speedup"].get<double>(), 0);
  EXPECT_NEAR(right["reference_runtime"].get<double>() / right["kernel_runtime"].get<double>(),
              right["speedup"].get<double>(), 1e-6);
  EXPECT_EQ(right["error_message"], nullptr);
  EXPECT_EQ(right["metadata"]["tier"], "HOST");
  EXPECT_THAT(right["metadata"]["unchecked"].get<std::vector<std::string>>(),
              testing::Contains("own_kernels"));
  EXPECT_GE(right["metadata"]["num_correct_trials"].get<int>(), 5);

  const auto failed = [&](const std::string& name, const std::string& code, bool compiled,
                          const char* error) {
    const json answer = post("/evaluate", request(name, code));
    EXPECT_EQ(answer["status"], "completed") << name << answer;
    EXPECT_EQ(answer["compiled"], compiled) << name << answer;
    EXPECT_EQ(answer["correctness"], false) << name << answer;
    EXPECT_EQ(answer["speedup"], 0.0) << name;
    EXPECT_EQ(answer["kernel_runtime"], nullptr) << name;
    EXPECT_EQ(answer["error_code"], error) << name << answer;
    return answer;
  };
  failed("wrong", kWrong, true, "CORRECTNESS_ERROR");
  EXPECT_THAT(failed("import", kNoImport, false, "IMPORT_ERROR")["error_message"].get<std::string>(),
              HasSubstr("no_such_module"));
  failed("syntax", kNoSyntax, false, "SYNTAX_ERROR");
  failed("pointer", kByPointer, true, "CORRECTNESS_ERROR");
  failed("reference", kCallsReference, true, "CORRECTNESS_ERROR");
  EXPECT_EQ(failed("forks", kForks, true, "CORRECTNESS_ERROR")["decoy_kernel"], true) << "TAMPERED";

  EXPECT_EQ(get("/status/wrong")["status"], "completed");
  EXPECT_EQ(get("/results/right")["speedup"], right["speedup"]);
  EXPECT_EQ(get("/workflow/results/right")["result"]["correctness"], true);

  json untimed = request("untimed", kRight);
  untimed["run_performance"] = false;
  const json verified = post("/evaluate", untimed);
  EXPECT_EQ(verified["correctness"], true);
  EXPECT_EQ(verified["speedup"], nullptr);

  json batch = {{"batch_id", "b"}, {"tasks", {request("b1", kRight), request("b2", kWrong)}}};
  batch["tasks"].push_back(request("b3", kRight));
  batch["tasks"][2]["backend"] = "triton";
  const json answers = post("/evaluate/batch", batch);
  EXPECT_EQ(answers["total_tasks"], 3);
  EXPECT_EQ(answers["failed_tasks"], 1);
  EXPECT_EQ(answers["results"][0]["correctness"], true);
  EXPECT_EQ(answers["results"][1]["correctness"], false);
  EXPECT_EQ(answers["results"][2]["status"], "failed");
  EXPECT_EQ(answers["results"][2]["speedup"], nullptr);

  // What one process was told the next one knows.
  program_->signal(SIGKILL);
  program_->wait(10);
  start();
  EXPECT_EQ(get("/results/right")["speedup"], right["speedup"]);
  EXPECT_EQ(get("/status/reference")["status"], "completed");
}

TEST_F(KernelGymTest, ErrorsNameTheLinesOfTheSendersText) {
  const auto error = [&](const std::string& name, const std::string& code) {
    return post("/evaluate", request(name, code))["error_message"].get<std::string>();
  };
  EXPECT_THAT(error("syntax", kNoSyntax), HasSubstr("line 3"));
  EXPECT_THAT(error("import", kNoImport), HasSubstr("line 2"));
  EXPECT_THAT(error("class", "class ModelNew(torch.nn.Module):\n    pass\n"), HasSubstr("line 1"))
      << "also behind no other statement";
  EXPECT_THAT(error("indented", "import torch\n  x = 1\n"), HasSubstr("line 2"));
}

TEST_F(KernelGymTest, AReferenceThatCannotBeUsedIsAnErrorWithoutNumbers) {
  const auto answer_to = [&](const std::string& reference) {
    json asked = request("r", kRight);
    asked["reference_code"] = reference;
    const json answer = post("/evaluate", asked);
    EXPECT_EQ(answer["status"], "failed") << answer;
    for (const char* const field : {"compiled", "correctness", "speedup", "kernel_runtime"})
      EXPECT_EQ(answer[field], nullptr) << field;
    EXPECT_EQ(answer["error_code"], "VALIDATION_ERROR") << answer;
    return answer["error_message"].get<std::string>();
  };
  std::string structured = kReference;
  structured.replace(structured.find("torch.randn(64, 512)"), 20, "torch.tril(torch.randn(64, 64))");
  EXPECT_THAT(answer_to(structured), HasSubstr("zeros by design"));
  EXPECT_THAT(answer_to("import torch\nclass Model: pass  # not much\n"), HasSubstr("no torch.nn.Module"));
  EXPECT_THAT(answer_to("import torch\nclass Model(torch.nn.Module): pass\n"), HasSubstr("get_inputs"));
  EXPECT_THAT(answer_to("import torch\nimport os\nos.fork()\n"), HasSubstr("forbidden system call"));
  EXPECT_EQ(post("/evaluate", request("after", kRight))["correctness"], true) << "others go on";
}

TEST_F(KernelGymTest, ProcessTasksOverLathesOwnInterfaceHaveTheirDigest) {
  const std::string toml =
      "name = \"softmax_module\"\ndims = { rows = [1, 100], cols = [2, 300] }\n"
      "[reference]\nkind = \"process\"\nsource = \"softmax.py\"\n"
      "[[tensor]]\nname = \"x\"\nshape = [\"rows\", \"cols\"]\n"
      "[[output]]\nname = \"y\"\nshape = [\"rows\", \"cols\"]\n"
      "[[shape]]\nrows = 64\ncols = 256\n";
  write("softmax.toml", toml);
  write("softmax.py", kReference);
  const auto on_disk = load_task(path("softmax.toml"));
  ASSERT_TRUE(on_disk.ok()) << on_disk.error().to_string();
  const std::string candidate =
      "\"\"\"lathe\n[host]\nlanguage = \"python\"\nentry = \"ModelNew\"\n\"\"\"\n" + kRight;
  const json sent = {{"toml", toml}, {"files", {{"softmax.py", kReference}}}};
  json answer = post("/v1/evaluations", {{"task", sent}, {"candidate", candidate}}, 202);
  EXPECT_EQ(answer["task"], on_disk->digest.hex());
  const std::string id = answer["id"];
  ASSERT_TRUE(eventually(120, [&] {
    answer = json::parse(HttpClient(port_).get("/v1/evaluations/" + id + "?wait=1")->body);
    return answer["state"] == "done";
  })) << answer;
  EXPECT_EQ(answer["verdict"]["outcome"], "PASS") << answer;
  EXPECT_EQ(get("/v1/evaluations/" + id + "/evidence")["verdict"]["provenance"]["tier"], "HOST");

  const auto refused = [&](const json& task, const char* why) {
    EXPECT_THAT(post("/v1/evaluations", {{"task", task}, {"candidate", "x"}}, 400)["error"]["message"]
                    .get<std::string>(),
                HasSubstr(why));
  };
  refused({{"toml", kTinyTask}}, "have a process reference");
  refused({{"toml", toml}}, "is missing");
  refused({{"toml", toml + "# again\n"}, {"files", {{"other.py", kReference}}}}, "has no 'softmax.py'");
  refused("softmax_rows", "no task of that name");
}

TEST_F(KernelGymTest, FieldsThatCannotBeHonouredAreRefusedWithAReason) {
  const auto refused = [&](const char* field, const json& value, const char* why) {
    json asked = request("t", kRight);
    asked[field] = value;
    const json answer = post("/evaluate", asked, 400);
    EXPECT_EQ(answer["error_code"], "VALIDATION_ERROR");
    EXPECT_THAT(answer["message"].get<std::string>(), HasSubstr(field));
    EXPECT_THAT(answer["message"].get<std::string>(), HasSubstr(why));
    EXPECT_EQ(post("/debug/validate", asked)["valid"], false);
  };
  refused("backend", "triton", "neither Triton nor CUDA");
  refused("backend", "cuda", "neither Triton nor CUDA");
  refused("toolkit", "kernel_simple", "kernelbench");
  refused("enable_profiling", true, "counters");
  refused("run_correctness", false, "verification");
  refused("reference_backend", "torch_compile", "eagerly");
  refused("num_correct_trials", 21, "1 to 20");
  refused("timeout", "long", "integer");
  refused("entry_point", "no name", "class");
  refused("cases", json::array({1}), "draws inputs");
  refused("resources", {{"gpus", 2}}, "processors");
  refused("task_id", "", "1 to 100");
  refused("kernel_code", "", "empty");
  refused("reference_code", std::string(100'001, 'x'), "longer");
  refused("surprise", 1, "no field");
  EXPECT_EQ(post("/debug/validate", request("t", kRight))["valid"], true);
  EXPECT_EQ(HttpClient(port_).post("/evaluate", "no JSON")->status, 400);
  EXPECT_EQ(HttpClient(port_).post("/evaluate", "[]")->status, 400);
  EXPECT_EQ(HttpClient(port_).post("/evaluate", std::string(100, '[') + std::string(100, ']'))->status, 400);
  post("/evaluate/batch", {{"batch_id", "b"}, {"tasks", json::array()}}, 400);
  get("/status/nobody", 404);
  get("/results/nobody", 404);
  EXPECT_EQ(HttpClient(port_).remove("/tasks/nobody")->status, 404);
  EXPECT_EQ(HttpClient(port_).get("/evaluate")->status, 405);
  EXPECT_EQ(HttpClient(port_).ask("GET", "/health", {}, {{"Host", "evil.example"}})->status, 403);
}

TEST_F(KernelGymTest, HealthQueueWorkersAndCancelling) {
  ASSERT_TRUE(eventually(60, [&] { return HttpClient(port_).get("/health")->status == 200; }));
  EXPECT_EQ(get("/health")["status"], "healthy");
  EXPECT_EQ(get("/workers/status")["host:cpu"]["status"], "online");
  EXPECT_EQ(get("/queue/status")["pending"], 0);
  EXPECT_THAT(HttpClient(port_).get("/metrics")->body, HasSubstr("lathe_queue")) << "stays Prometheus's";
  const std::string slow =
      kernel("        return torch.softmax(x, dim=-1)\n", "import time\ntime.sleep(20)\n");
  std::string answered;
  std::thread client([&] {
    const auto answer = HttpClient(port_).post("/evaluate", request("slow", slow).dump());
    if (answer.ok()) answered = answer->body;
  });
  EXPECT_TRUE(eventually(30, [&] { return HttpClient(port_).get("/status/slow")->status == 200; }));
  EXPECT_EQ(get("/results/slow", 404)["error_code"], "VALIDATION_ERROR") << "no result yet";
  EXPECT_EQ(HttpClient(port_).remove("/tasks/slow")->status, 200);
  client.join();
  EXPECT_EQ(json::parse(answered)["status"], "failed") << answered;
  EXPECT_EQ(json::parse(answered)["speedup"], nullptr);
  EXPECT_EQ(HttpClient(port_).remove("/tasks/slow")->status, 404);
}

TEST_F(ProgramTest, KernelGymNeedsADeviceThatRunsPython) {
  Program other(folder_, {"serve", "--port", "0", "--device", "cpu", "--kernelgym"});
  EXPECT_EQ(WEXITSTATUS(other.wait(20)), 3);
  EXPECT_THAT(other.err(), HasSubstr("--device host:cpu"));
}

}  // namespace
}  // namespace lathe::serve
