// A memory file whose content is mapped twice in a row, so that what wraps around its end lies in one piece.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

class Mirror {
 public:
  // A new file: a head of one page, then `bytes` of content, a power of two and whole pages.
  static Result<Mirror> create(size_t bytes);
  // A file that `create` made, perhaps in another process. The descriptor stays the caller's.
  static Result<Mirror> attach(int file);

  Mirror(Mirror&& other) noexcept;
  Mirror& operator=(Mirror&&) = delete;
  ~Mirror();

  void* head() const { return base_; }
  // Position 0 of the content; all up to 2 × bytes() can be touched.
  uint8_t* content() const;
  size_t bytes() const { return bytes_; }
  int file() const { return file_.get(); }

 private:
  Mirror(Fd file, uint8_t* base, size_t bytes) : file_(std::move(file)), base_(base), bytes_(bytes) {}
  static Result<Mirror> map(Fd file, size_t bytes);

  Fd file_;
  uint8_t* base_;
  size_t bytes_;
};

}  // namespace dsec
