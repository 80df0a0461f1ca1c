// The launcher's loop: requests from Node, deaths, deadlines, sweeps.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "launcher/message.h"
#include "launcher/sandbox.h"

namespace dsec {

class Server {
 public:
  Server(Host host, Fd node, Fd sweeper, Fd disk_watch);

  // Serves until Node asks to close or its end of the socket closes. Every sandbox is dead and swept afterwards.
  Result<void> run();

 private:
  // Of what is made ahead of launches: nothing to do, to be filled once it is quiet, or being filled.
  enum class Stock { kFull, kWaiting, kFilling };

  Result<void> serve_once();
  Stock refill();
  Result<void> on_request(Message message);
  void launch(const Message& message);
  Result<Sandbox*> make(const Message& message);
  Result<void> destroy(const std::string& id);
  Result<void> on_death(Sandbox& sandbox);
  Result<void> on_swept();
  Result<void> on_disk_use();
  Result<void> sweep(const Sandbox& sandbox);
  Result<void> send_sweep_jobs();
  void tell(const nlohmann::json& event, const std::vector<int>& descriptors = {});
  void kill_expired();
  int wait_ms();
  void shut_down();
  Result<void> watch(int descriptor);

  Host host_;
  Fd node_, sweeper_, disk_watch_, epoll_;
  std::map<std::string, Sandbox> sandboxes_;
  std::map<int, std::string> by_pidfd_;
  std::set<std::string> leaving_;  // being killed or swept for good
  std::deque<std::string> to_sweep_;
  size_t sweeping_ = 0;  // jobs that the sweeper has not answered
  Stock stock_ = Stock::kFilling;
  bool is_closing_ = false;
};

}  // namespace dsec
