#include "backend/cpu/runner/compile_worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "backend/compile_job.h"
#include "base/clock.h"
#include "sandbox/jail.h"
#include "sandbox/memfd.h"

namespace lathe {
namespace {

constexpr std::size_t kMaxLogBytes = 16 * 1024;
constexpr std::size_t kMaxObjectBytes = 64u << 20;

constexpr std::uint64_t kMostMemory = std::uint64_t{4} << 30;

const std::vector<std::string> kToolChain = {
    "/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives"};

[[noreturn]] void exec_compiler(const std::string& folder, const CompileFolders& folders, double cpu_seconds,
                                std::vector<std::string> command) {
  JailSpec spec;
  spec.readable = kToolChain;
  spec.readable.push_back(folders.include);
  spec.readable.insert(spec.readable.end(), folders.readable.begin(), folders.readable.end());
  spec.writable = {folder, "/dev/null"};
  spec.max_address_bytes = kMostMemory;
  spec.max_cpu_seconds = static_cast<std::uint64_t>(cpu_seconds) + 1;
  const int log = ::open("log", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(log, 1);
  ::dup2(log, 2);
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!restrict_resources(spec).ok() || !restrict_files(spec).ok() || !deny_dangerous_calls().ok())
    ::_exit(126);

  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  const char* const environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=.", "LC_ALL=C", nullptr};
  ::execve(argv.front(), argv.data(), const_cast<char* const*>(environment));
  ::_exit(127);
}

std::vector<std::string> command_of(const protocol::CompileJob& job) {
  std::vector<std::string> command = {"/usr/bin/g++"};
  command.insert(command.end(), job.flags.begin(), job.flags.end());
  command.insert(command.end(), {"-Wa,--MD,assembled", "-o", "out.so", "candidate.cpp"});
  if (!job.cuda.nvcc.empty()) command.emplace_back("kernels.o");
  command.emplace_back("-lgcc");
  return command;
}

std::vector<std::string> command_of(const protocol::CudaUnit& unit) {
  std::vector<std::string> command = {unit.nvcc};
  command.insert(command.end(), unit.flags.begin(), unit.flags.end());
  command.insert(command.end(), {"-c", "-o", "kernels.o", "kernels.cu"});
  return command;
}

/// Like wait_for_job(), but kills the child's whole process group and reaps its orphans.
int wait_until(pid_t child, double cpu_seconds, const Channel& broker) {
  const int status = wait_for_job(child, -child, cpu_seconds, broker);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  return status;
}

/// The first file other than the compiler's output that the assembler reports (--MD) to have read,
/// or "". With .include and .incbin a source could otherwise bring in, say, the machine code of an
/// installed library.
std::string foreign_file(const std::string& assembled) {
  std::istringstream words(assembled);
  std::string word;
  for (words >> word; words >> word;) {
    const bool own =
        word == "\\" || word == "candidate.cpp" || word == "candidate" ||
        (word.starts_with("./cc") && word.ends_with(".s") && word.find('/', 2) == std::string::npos);
    if (!own) return word;
  }
  return {};
}

protocol::CompileReply compile(const std::string& folder, const CompileFolders& folders,
                               const protocol::CompileJob& job, const Channel& broker) {
  protocol::CompileReply reply;
  const auto begin = steady_clock().now_ns();
  const bool has_kernels = !job.cuda.nvcc.empty();
  if (::chdir(folder.c_str()) != 0 || !write_file_atomically(folder + "/candidate.cpp", job.source).ok() ||
      (has_kernels && !write_file_atomically(folder + "/kernels.cu", job.cuda.source).ok())) {
    reply.infra = true;
    reply.log = "cannot write the job's folder " + folder;
    return reply;
  }
  const auto run = [&](const std::vector<std::string>& command) {
    const pid_t child = ::fork();
    if (child == 0) exec_compiler(folder, folders, job.timeout_seconds, command);
    const int status = child < 0 ? 0x7f00 : wait_until(child, job.timeout_seconds, broker);
    reply.timed_out = status == -1;
    reply.infra = child < 0 || (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) >= 126);
    return status == 0;
  };
  reply.ok = (!has_kernels || run(command_of(job.cuda))) && run(command_of(job));
  if (auto log = read_file(folder + "/log"); log.ok()) reply.log = log->substr(0, kMaxLogBytes);
  if (const auto assembled = read_file(folder + "/assembled"); reply.ok && assembled.ok())
    if (const std::string foreign = foreign_file(*assembled); !foreign.empty()) {
      reply.ok = false;
      reply.log = "error: the assembly includes the file '" + foreign + "'\n" + reply.log;
    }
  if (reply.infra && reply.log.empty()) reply.log = "the compiler does not start in the compile jail";
  reply.seconds = seconds_since(begin);
  return reply;
}

void answer(const Channel& channel, protocol::CompileReply reply, const std::string& object_path) {
  std::error_code code;
  std::string object;
  if (reply.ok && std::filesystem::file_size(object_path, code) <= kMaxObjectBytes && !code) {
    auto bytes = read_file(object_path);
    if (bytes.ok()) object = *std::move(bytes);
  }
  if (reply.ok && object.empty()) {
    reply.ok = false;
    reply.log = "the object is missing or larger than 64 MiB";
  }
  if (!reply.ok) return void(channel.send(protocol::encode(reply)));
  const auto memory = make_sealed_memfd("object", object);
  if (memory.ok()) (void)channel.send(protocol::encode(reply), {memory->get()});
}

}  // namespace

std::vector<std::string> visible_to_compilers(const CompileFolders& folders) {
  std::vector<std::string> visible = kToolChain;
  visible.insert(visible.end(), {"/dev/null", folders.include, folders.work});
  visible.insert(visible.end(), folders.readable.begin(), folders.readable.end());
  return visible;
}

void serve_compiles(const Channel& channel, const CompileFolders& folders) {
  serve_jobs(channel, [&](const protocol::CompileJob& job) -> Status {
    std::string folder = folders.work + "/job-XXXXXX";
    if (!::mkdtemp(folder.data())) {
      protocol::CompileReply refusal;
      refusal.infra = true;
      refusal.log = errno_error("the user nobody cannot write to '" + folders.work + "'").message +
                    "; make its parent folders accessible to others, or set LATHE_CACHE";
      answer(channel, std::move(refusal), "");
      return Ok{};
    }
    answer(channel, compile(folder, folders, job, channel), folder + "/out.so");
    if (::chdir("/") != 0) return errno_error("cannot leave a job's folder");
    std::error_code code;
    std::filesystem::remove_all(folder, code);
    return Ok{};
  });
}

}  // namespace lathe
