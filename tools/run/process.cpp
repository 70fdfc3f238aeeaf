// fork and exec with everything that has to happen in between. Descriptors are all opened close-on-exec.
#include "tools/run/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/check.hpp"

namespace unisono::tools {
namespace {

struct Pipe {
  Descriptor read_end, write_end;
};

Result<Pipe> open_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return Status(ErrorCode::resource, fmt::format("cannot open a pipe: {}", std::strerror(errno)));
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

// All that the child needs, made before fork() since the child may not allocate.
struct ChildPlan {
  std::vector<std::string> texts;  // what the pointers below point into
  std::vector<char*> arguments, variables;
  int input, secret, output, error, report;
  pid_t launcher;
};

ChildPlan plan_for(const Program& program) {
  ChildPlan plan{.texts = program.command,
                 .arguments = {},
                 .variables = {},
                 .input = program.input,
                 .secret = program.secret,
                 .output = -1,
                 .error = -1,
                 .report = -1,
                 .launcher = ::getpid()};
  for (const auto& [name, value] : program.environment) plan.texts.push_back(name + "=" + value);
  const size_t arguments = program.command.size();
  for (size_t index = 0; index < plan.texts.size(); ++index)
    (index < arguments ? plan.arguments : plan.variables).push_back(plan.texts[index].data());
  plan.arguments.push_back(nullptr);
  plan.variables.push_back(nullptr);
  return plan;
}

// Runs in the child: async-signal-safe calls only. The parent may have died before prctl() took effect, hence the
// look at who our parent is.
[[noreturn]] void become(const ChildPlan& plan, const Signals& signals) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.launcher) ::_exit(1);
  ::dup2(plan.input, STDIN_FILENO);
  ::dup2(plan.output, STDOUT_FILENO);
  ::dup2(plan.error, STDERR_FILENO);
  if (plan.secret >= 0) ::fcntl(plan.secret, F_SETFD, 0);
  signals.give_back_to_child();
  ::execvpe(plan.arguments[0], plan.arguments.data(), plan.variables.data());
  const int reason = errno;
  [[maybe_unused]] ssize_t written = ::write(plan.report, &reason, sizeof reason);
  ::_exit(127);
}

// The write end closes by itself when exec succeeds; until then the process group may not exist yet, so we wait.
int exec_error_from(Pipe& report) {
  report.write_end.reset();
  int reason = 0;
  ssize_t got;
  do got = ::read(report.read_end.number(), &reason, sizeof reason);
  while (got < 0 && errno == EINTR);
  return got == sizeof reason ? reason : 0;
}

// Where a folder of PATH may not be searched, exec says "permission denied" also of a program that is in none of them.
bool is_in_path(const std::string& program, const Environment& environment) {
  const auto path = environment.find("PATH");
  std::string folder;
  std::istringstream folders(path == environment.end() ? "" : path->second);
  while (std::getline(folders, folder, ':'))
    if (::access(((folder.empty() ? "." : folder) + "/" + program).c_str(), F_OK) == 0) return true;
  return false;
}

}  // namespace

Result<Process> start(const Program& program, const Signals& signals) {
  Result<Pipe> output = open_pipe(), error = open_pipe(), report = open_pipe();
  for (Result<Pipe>* pipe : {&output, &error, &report}) RETURN_IF_ERROR(pipe->status());
  ChildPlan plan = plan_for(program);
  plan.output = output->write_end.number();
  plan.error = error->write_end.number();
  plan.report = report->write_end.number();

  Process process;
  process.pid = ::fork();
  if (process.pid == 0) become(plan, signals);
  if (process.pid < 0)
    return Status(ErrorCode::resource, fmt::format("cannot start a process: {}", std::strerror(errno)));
  process.exec_error = exec_error_from(*report);
  const std::string& name = program.command.front();
  if (process.exec_error == EACCES && name.find('/') == std::string::npos && !is_in_path(name, program.environment))
    process.exec_error = ENOENT;
  process.handle = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  process.output = std::move(output->read_end);
  process.error = std::move(error->read_end);
  for (const Descriptor* stream : {&process.output, &process.error}) ::fcntl(stream->number(), F_SETFL, O_NONBLOCK);
  if (process.handle) return process;
  const int reason = errno;
  ::kill(-process.pid, SIGKILL);
  ::waitpid(process.pid, nullptr, 0);
  return Status(ErrorCode::resource, fmt::format("cannot watch a process: {}", std::strerror(reason)));
}

std::string cannot_start(const std::string& program, int exec_error) {
  const bool is_path = program.find('/') != std::string::npos;
  struct stat found {};
  const bool exists = ::stat(program.c_str(), &found) == 0;
  std::string advice;
  if (exec_error == ENOENT && !is_path)
    advice = exists ? fmt::format("it is not in PATH; did you mean ./{}?", program) : "it is not in PATH";
  else if (exec_error == ENOENT)
    advice = exists ? "the interpreter that its first line names does not exist" : "there is no such file";
  else if (exec_error == EACCES && exists && S_ISDIR(found.st_mode))
    advice = "it is a directory";
  else if (exec_error == EACCES && is_path && !exists)
    advice = "this user may not search a folder on the way to it";
  else if (exec_error == EACCES)
    advice = fmt::format("it may not be executed; try: chmod +x {}", program);
  else
    advice = std::strerror(exec_error);
  return fmt::format("cannot start {}: {}", program, advice);
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name ? fmt::format("signal {} (SIG{})", signal, name) : fmt::format("signal {}", signal);
}

std::string Ending::how() const {
  return signal ? fmt::format("was killed by {}", signal_name(signal))
                : fmt::format("exited with status {}", exit_status);
}

Ending ending_of(const Process& ended) {
  siginfo_t information{};
  CHECK(::waitid(P_PID, static_cast<id_t>(ended.pid), &information, WEXITED | WNOWAIT) == 0);
  if (information.si_code == CLD_EXITED) return {.exit_status = information.si_status};
  return {.signal = information.si_status};
}

}  // namespace unisono::tools
