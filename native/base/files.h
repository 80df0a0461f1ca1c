// Small files read and written whole: what /proc, /sys and cgroupfs are made of.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

Result<Fd> open_at(int directory, const std::string& path, int flags, unsigned mode = 0);

// The whole content; `directory` may be AT_FDCWD.
Result<std::string> read_file(int directory, const std::string& path);

// One write(2) to an existing file: kernel interface files take a value in one call or not at all.
Result<void> write_file(int directory, const std::string& path, std::string_view value);

// Makes a regular file with this content, replacing what is there.
Result<void> make_file(const std::string& path, std::string_view content, unsigned mode);

// A directory; one that is already there is a success.
Result<void> make_directory(const std::string& path, unsigned mode);

Result<std::string> read_link(int directory, const std::string& path);

}  // namespace dsec
