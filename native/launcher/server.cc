#include "launcher/server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "launcher/disk_watch.h"
#include "launcher/sweeper.h"

namespace dsec {
namespace {

using Json = nlohmann::json;

constexpr off_t kPlanBytesMax = 64 << 20;

// A plan comes as a sealed memfd: it has no hidden size limit and cannot change while it is read.
Result<std::string> read_plan(const Fd& file) {
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
  if ((::fcntl(file.get(), F_GET_SEALS) & kSeals) != kSeals) return Error{"plan", "is not sealed", 0, "INVALID_REQUEST"};
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return failed("fstat", "plan");
  if (status.st_size > kPlanBytesMax) return Error{"plan", "is larger than 64 MiB", 0, "INVALID_REQUEST"};
  std::string text(static_cast<size_t>(status.st_size), '\0');
  for (size_t at = 0; at < text.size();) {
    ssize_t count = ::pread(file.get(), text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (count <= 0) return failed("pread", "plan");
    at += static_cast<size_t>(count);
  }
  return text;
}

// A message is one datagram; a name in it that a client chose must not make it too long.
std::string bounded(const std::string& text) {
  constexpr size_t kBytes = 4096;
  return text.size() <= kBytes ? text : text.substr(0, kBytes) + "…";
}

std::string upper_of(const Sandbox& sandbox) { return sandbox.folder() + "/upper"; }

}  // namespace

Server::Server(Host host, Fd node, Fd sweeper, Fd disk_watch)
    : host_(std::move(host)),
      node_(std::move(node)),
      sweeper_(std::move(sweeper)),
      disk_watch_(std::move(disk_watch)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

Result<void> Server::run() {
  for (int descriptor : {node_.get(), sweeper_.get(), disk_watch_.get()}) TRY(watch(descriptor));
  tell({{"event", "ready"}, {"cgroup", host_.cgroups.interface().version()}});
  Result<void> served;
  while (served && !is_closing_) served = serve_once();
  // Whatever went wrong, what the sandboxes hold on the host is given back.
  shut_down();
  return served;
}

Result<void> Server::watch(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) return failed("epoll_ctl");
  return {};
}

Result<void> Server::serve_once() {
  constexpr int kBatch = 64;
  epoll_event events[kBatch];
  int count = ::epoll_wait(epoll_.get(), events, kBatch, wait_ms());
  if (count < 0 && errno != EINTR) return failed("epoll_wait");
  kill_expired();
  if (stock_ != Stock::kFull) stock_ = count > 0 ? Stock::kWaiting : refill();
  for (int i = 0; i < count; i++) {
    const int descriptor = events[i].data.fd;
    if (descriptor == node_.get()) {
      TRY_ASSIGN(message, receive_message(node_.get()));
      if (!message) {
        is_closing_ = true;
        return {};
      }
      TRY(on_request(*std::move(message)));
    } else if (descriptor == sweeper_.get()) {
      TRY(on_swept());
    } else if (descriptor == disk_watch_.get()) {
      TRY(on_disk_use());
    } else if (auto found = by_pidfd_.find(descriptor); found != by_pidfd_.end()) {
      TRY(on_death(sandboxes_.at(found->second)));
    }
  }
  return {};
}

// One step. A failure shows again, and is told, at the launch that finds nothing ready.
Server::Stock Server::refill() {
  Result<bool> more = host_.networks.refill();
  if (more && !*more) more = host_.blanks.refill(host_.slots);
  return more && *more ? Stock::kFilling : Stock::kFull;
}

Result<void> Server::on_request(Message message) {
  const std::string request = message.body.value("op", "");
  const std::string id = message.body.value("id", "");
  if (request == "launch") {
    launch(message);
    return {};
  }
  if (request == "kill") {
    auto found = sandboxes_.find(id);
    if (found != sandboxes_.end()) found->second.kill(KillCause::kKilled);
    return {};
  }
  if (request == "destroy") return destroy(id);
  if (request == "close") {
    is_closing_ = true;
    return {};
  }
  return Error{"request", request + " is unknown", EPROTO};
}

void Server::launch(const Message& message) {
  const int64_t started_us = now_us();
  const Json sequence = message.body.value("sequence", Json());
  Result<Sandbox*> made = make(message);
  if (!made) {
    const Error& error = made.error();
    return tell({{"event", "refused"}, {"sequence", sequence}, {"code", error.code}, {"message", bounded(error.text())}});
  }
  Sandbox& sandbox = **made;
  sandbox.go();
  const int64_t launch_us = now_us() - started_us;
  Fd output = sandbox.take_stdout(), errors = sandbox.take_stderr(), root = sandbox.take_root();
  const std::vector<Fd> listeners = sandbox.take_listeners();
  std::vector<int> descriptors = {output.get(), errors.get(), root.get()};
  for (const Fd& listener : listeners) descriptors.push_back(listener.get());
  tell({{"event", "launched"},
        {"sequence", sequence},
        {"pid", sandbox.pid()},
        {"launchUs", launch_us},
        {"observation", sandbox.observation()}},
       descriptors);
}

// Up to the moment before the command is let go.
Result<Sandbox*> Server::make(const Message& message) {
  if (message.descriptors.size() != 1) return Error{"plan", "came without its descriptor", 0, "INVALID_REQUEST"};
  TRY_ASSIGN(text, read_plan(message.descriptors[0]));
  TRY_ASSIGN(plan, parse_plan(text));
  if (sandboxes_.contains(plan.id)) return Error{"sandbox", plan.id + " already exists", 0, "INVALID_REQUEST"};
  stock_ = Stock::kWaiting;
  Result<Sandbox> made = Sandbox::make(host_, plan);
  if (!made) {
    Error error = std::move(made).error();
    error.object += " (sandbox " + plan.id + ")";
    return error;
  }
  Sandbox& sandbox = sandboxes_.emplace(plan.id, *std::move(made)).first->second;
  by_pidfd_.emplace(sandbox.pidfd(), sandbox.id());
  TRY(watch(sandbox.pidfd()));
  if (sandbox.disk_bytes() > 0) {
    const std::vector<std::string> cgroups = sandbox.cgroup_paths();
    TRY(send_disk_bound(disk_watch_.get(), {sandbox.id(), upper_of(sandbox), cgroups.front(), sandbox.disk_bytes()}));
  }
  return &sandbox;
}

Result<void> Server::on_death(Sandbox& sandbox) {
  by_pidfd_.erase(sandbox.pidfd());
  if (sandbox.disk_bytes() > 0) TRY(send_disk_bound(disk_watch_.get(), {sandbox.id(), "", "", 0}));
  const Json end = sandbox.end();
  tell({{"event", "ended"}, {"id", sandbox.id()}, {"end", end}});
  if (leaving_.contains(sandbox.id())) return sweep(sandbox);
  return {};
}

Result<void> Server::destroy(const std::string& id) {
  auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) {
    tell({{"event", "destroyed"}, {"id", id}, {"error", nullptr}});
    return {};
  }
  if (!leaving_.insert(id).second) return {};
  if (!found->second.is_alive()) return sweep(found->second);
  found->second.kill(KillCause::kKilled);
  return {};
}

Result<void> Server::sweep(const Sandbox& sandbox) {
  to_sweep_.push_back(sandbox.id());
  return send_sweep_jobs();
}

// No more at once than both sockets have room for: else, where hundreds die together, the launcher would wait for room
// for a job, and the sweeper, for ever, for room for an answer.
Result<void> Server::send_sweep_jobs() {
  constexpr size_t kAtOnce = 64;
  while (sweeping_ < kAtOnce && !to_sweep_.empty()) {
    const Sandbox& sandbox = sandboxes_.at(to_sweep_.front());
    TRY(send_sweep_job(sweeper_.get(), {sandbox.id(), sandbox.folder(), sandbox.cgroup_paths()}));
    to_sweep_.pop_front();
    sweeping_++;
  }
  return {};
}

Result<void> Server::on_swept() {
  TRY_ASSIGN(message, receive_message(sweeper_.get()));
  if (!message) return Error{"sweeper", "died", EPIPE};
  const std::string id = message->body.at("id");
  sandboxes_.erase(id);
  leaving_.erase(id);
  tell({{"event", "destroyed"}, {"id", id}, {"error", message->body.at("error")}});
  sweeping_--;
  return send_sweep_jobs();
}

// A Node that no longer listens is dead: everything is ended, as if it had asked.
void Server::tell(const Json& event, const std::vector<int>& descriptors) {
  if (!send_message(node_.get(), event, descriptors)) is_closing_ = true;
}

Result<void> Server::on_disk_use() {
  TRY_ASSIGN(message, receive_message(disk_watch_.get()));
  if (!message) return Error{"disk watch", "died", EPIPE};
  auto found = sandboxes_.find(message->body.at("id").get<std::string>());
  if (found == sandboxes_.end()) return {};
  Sandbox& sandbox = found->second;
  const int64_t bytes = message->body.at("bytes");
  if (bytes > sandbox.disk_bytes()) sandbox.kill(KillCause::kDiskFull);
  // What was not measured to its end is past its bound, by nobody knows how much.
  tell({{"event", "disk"}, {"id", sandbox.id()}, {"bytes", std::min(bytes, sandbox.disk_bytes())}});
  return {};
}

void Server::kill_expired() {
  const int64_t now = now_us();
  for (auto& [id, sandbox] : sandboxes_) {
    if (sandbox.is_alive() && sandbox.deadline_us() <= now) sandbox.kill(KillCause::kTimedOut);
  }
}

int Server::wait_ms() {
  constexpr int64_t kHourUs = 3'600'000'000;
  if (stock_ == Stock::kFilling) return 0;
  // Beside a sandbox that is just starting or ending it would slow down what is waited for.
  constexpr int64_t kQuietUs = 5000;
  int64_t next_us = INT64_MAX;
  const int64_t now = now_us();
  for (const auto& [id, sandbox] : sandboxes_) {
    // One that was killed and is still dying has its deadline behind it.
    if (sandbox.is_alive() && sandbox.deadline_us() > now) next_us = std::min(next_us, sandbox.deadline_us());
  }
  if (stock_ == Stock::kWaiting) next_us = std::min(next_us, now + kQuietUs);
  if (next_us == INT64_MAX) return -1;
  return static_cast<int>(std::min(next_us - now, kHourUs) / 1000 + 1);
}

void Server::shut_down() {
  is_closing_ = true;
  stock_ = Stock::kFull;
  host_.blanks.clear(host_.slots);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, node_.get(), nullptr);
  for (auto& [id, sandbox] : sandboxes_) {
    if (!leaving_.insert(id).second) continue;
    if (sandbox.is_alive()) sandbox.kill(KillCause::kKilled);
    else if (!sweep(sandbox)) return;
  }
  // Without its helpers the launcher cannot sweep; the next one will.
  while (!sandboxes_.empty()) {
    if (!serve_once()) return;
  }
}

}  // namespace dsec
