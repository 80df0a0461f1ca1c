// The commands of dsec-tool. Each returns the exit code, or throws UsageError.
#pragma once

#include <string>
#include <vector>

namespace dsec::tool {

using Words = std::vector<std::string>;

int api_call(const Words& words);
int exec(const Words& words);
int memory(const Words& words);
int message(const Words& words);
int step(const Words& words);
int reward(const Words& words);
int logits(const Words& words);
int context(const Words& words);
int observe(const Words& words);
int list(const Words& words);

}  // namespace dsec::tool
