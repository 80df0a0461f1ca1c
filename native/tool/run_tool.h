// A tool that runs within the sandbox, as a child of the program that was asked for it.
#pragma once

#include <string>

namespace dsec::tool {

// Runs what `POST /v1/tools/{name}/begin` answered ({call, command, input, timeout_ms}) and returns the body for `end`. The
// child is killed with its process group when its time is over.
std::string run_tool(const std::string& begun);

}  // namespace dsec::tool
