// TCP sockets that listen inside a sandbox's network namespace and are served from outside it: the sandbox's only
// network. A socket belongs to the namespace it was made in, whoever holds it (network_namespaces(7)).
#pragma once

#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

// Listens on 127.0.0.1 at each port. The sockets are in place before anything inside runs, so nothing inside can take
// the ports first. They keep the namespace alive until they are closed.
Result<std::vector<Fd>> listen_on_loopback(int network_namespace, const std::vector<uint16_t>& ports);

}  // namespace dsec
