#include "launcher/sweeper.h"

#include <fcntl.h>

#include "base/remove_tree.h"
#include "launcher/cgroup.h"
#include "launcher/message.h"

namespace dsec {
namespace {

Result<void> sweep(const nlohmann::json& job) {
  for (const auto& path : job.at("cgroups")) TRY(remove_cgroup(path.get<std::string>()));
  return remove_tree(AT_FDCWD, job.at("folder").get<std::string>());
}

}  // namespace

void sweep_until_closed(int socket) {
  for (;;) {
    Result<std::optional<Message>> message = receive_message(socket);
    if (!message || !*message) return;
    const nlohmann::json& job = (*message)->body;
    Result<void> swept = sweep(job);
    nlohmann::json answer = {{"id", job.at("id")}, {"error", swept ? nlohmann::json() : nlohmann::json(swept.error().text())}};
    if (!send_message(socket, answer)) return;
  }
}

Result<void> send_sweep_job(int socket, const SweepJob& job) {
  return send_message(socket, {{"id", job.id}, {"folder", job.folder}, {"cgroups", job.cgroups}});
}

}  // namespace dsec
