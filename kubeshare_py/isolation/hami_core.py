"""`hami-core`: HAMi-core's library libvgpu.so, which limits what a container allocates and starts.

Admission adds nothing: limits, library and cache file come with the devices of the container, from
the device plugin of the node agent (`node_agent.hami_core`), as from HAMi's own plugin. So it is
for containers that ask for devices, such as `nvidia.com/gpu`. A container escapes the library by a
program that is linked statically, or against another libc than glibc:
https://github.com/Project-HAMi/HAMi-core
"""

from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.isolation.backend import Backend

HAMI_CORE = Backend(name=IsolationBackend.HAMI_CORE)
