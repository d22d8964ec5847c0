# Writes to memory of the GPU that it does not have, by CUDA's driver alone.
import ctypes

WRITE = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry f()
{
	.reg .b64 %p;
	.reg .b32 %v;
	mov.u64 %p, 16;
	mov.u32 %v, 1;
	st.global.u32 [%p], %v;
	ret;
}
"""

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code:
        raise SystemExit(f"{name} says {code}")


context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), WRITE)
call("cuModuleGetFunction", ctypes.byref(kernel), module, b"f")
call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
call("cuCtxSynchronize")
