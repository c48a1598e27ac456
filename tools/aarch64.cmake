# Cross-building for 64-bit Arm Linux with Debian's compiler; tests run under qemu-user. tools/setup-aarch64.sh installs
# what is needed.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(triplet aarch64-linux-gnu)
set(CMAKE_C_COMPILER ${triplet}-gcc)
set(CMAKE_CXX_COMPILER ${triplet}-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${triplet})

# Multiarch: libraries of both architectures lie under /usr/lib, each in its own folder; programs are the host's.
set(CMAKE_FIND_ROOT_PATH /usr/${triplet})
set(CMAKE_LIBRARY_PATH /usr/lib/${triplet})
set(CMAKE_IGNORE_PATH /usr/lib/x86_64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)

find_program(OCHRE_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(OCHRE_QEMU)
  # The loader and the libraries both come from multiarch's /lib. With -L at the cross compiler's own C library qemu would
  # take its loader from there and libc from here, and two versions of glibc do not start threads together.
  set(CMAKE_CROSSCOMPILING_EMULATOR ${OCHRE_QEMU})
endif()
