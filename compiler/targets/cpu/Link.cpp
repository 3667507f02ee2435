#include "compiler/targets/cpu/Cpu.h"

#include "lld/Common/Driver.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

using namespace mlir;

namespace g4::cpu {

FailureOr<std::string> link(Location loc, ArrayRef<std::string> objects) {
  auto fail = [&](const Twine &what) -> FailureOr<std::string> {
    return emitError(loc) << "linking kernels: " << what.str();
  };
  // lld reads and writes files only: all objects in one archive, and the result. Both are removed whatever happens.
  SmallString<128> in, out;
  std::vector<llvm::NewArchiveMember> members;
  for (const std::string &object : objects)
    members.emplace_back(llvm::MemoryBufferRef(object, "kernels.o"));
  auto archive = llvm::writeArchiveToBuffer(members, llvm::SymtabWritingMode::NoSymtab, llvm::object::Archive::K_GNU,
                                            /*Deterministic=*/true, /*Thin=*/false);
  if (!archive)
    return fail(llvm::toString(archive.takeError()));
  int fd = -1;
  if (auto error = llvm::sys::fs::createTemporaryFile("g4", "a", fd, in))
    return fail(error.message());
  llvm::FileRemover removeIn(in);
  {
    llvm::raw_fd_ostream os(fd, /*shouldClose=*/true);
    os << (*archive)->getBuffer();
    os.close();
    if (os.has_error()) {
      auto error = os.error();
      os.clear_error();
      return fail(error.message());
    }
  }
  if (auto error = llvm::sys::fs::createTemporaryFile("g4", "so", out))
    return fail(error.message());
  llvm::FileRemover removeOut(out);
  std::vector<const char *> args{"ld.lld", "-shared", "--hash-style=gnu", "-z", "defs", "-z", "relro", "-z", "now",
                                 "--build-id=none", "-s", "--threads=1", "-o", out.c_str(), "--whole-archive", in.c_str()};
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  lld::Result result = lld::lldMain(args, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode)
    return fail(messages);
  auto buffer = llvm::MemoryBuffer::getFile(out);
  if (!buffer)
    return fail(buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

} // namespace g4::cpu
