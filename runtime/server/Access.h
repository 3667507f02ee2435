/// Who may ask: keys, and the pages of browsers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace g4::server {

class Access {
public:
  /// No keys: everybody may. `origins`: of web pages, such as "https://chat.example"; "*": all.
  Access(std::vector<std::string> keys, std::vector<std::string> origins)
      : keys_(std::move(keys)), origins_(std::move(origins)) {}

  /// `authorization`: the header's value, "Bearer KEY". Its time does not tell how much of a key was right.
  bool keyFits(std::string_view authorization) const;

  /// A page of `origin` may read answers.
  bool originFits(std::string_view origin) const;
  /// `origin` is the server's own, which `host` is the header of. Other pages that are not allowed must not
  /// even ask: a browser sends some requests without asking the server first.
  static bool ownOrigin(std::string_view origin, std::string_view host);

private:
  std::vector<std::string> keys_, origins_;
};

} // namespace g4::server
