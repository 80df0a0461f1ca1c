// A program for images that hold nothing else: lists a folder, reads a file, appends to one and reads it back.
#include <dirent.h>
#include <cstdio>
#include <cstring>

namespace {

int read_out(const char* path) {
  std::FILE* file = std::fopen(path, "r");
  if (!file) return 1;
  for (int letter; (letter = std::fgetc(file)) != EOF;) std::putchar(letter);
  return std::fclose(file);
}

}  // namespace

int main(int count, char** values) {
  if (count != 3) return 2;
  const char* path = values[2];
  if (std::strcmp(values[1], "list") == 0) {
    DIR* folder = opendir(path);
    if (!folder) return 1;
    while (const dirent* entry = readdir(folder)) {
      if (entry->d_name[0] != '.') std::puts(entry->d_name);
    }
    return closedir(folder);
  }
  if (std::strcmp(values[1], "append") == 0) {
    std::FILE* file = std::fopen(path, "a");
    if (!file || std::fputs("more\n", file) < 0 || std::fclose(file) != 0) return 1;
  }
  return read_out(path);
}
