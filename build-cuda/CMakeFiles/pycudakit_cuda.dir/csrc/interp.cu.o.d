CMakeFiles/pycudakit_cuda.dir/csrc/interp.cu.o : /tmp/w/core/csrc/interp.cu \
    /tmp/w/core/csrc/common/interp.h \
    /tmp/w/core/csrc/common/call/call.h \
    /tmp/w/core/csrc/pycudakit.h \
    /tmp/w/core/csrc/common/call/status.h \
    /tmp/w/core/csrc/common/call/timeline.h \
    /tmp/w/core/csrc/common/portable.h \
    /tmp/w/core/csrc/cuda/pipeline/broadcast_buffers.h \
    /tmp/w/core/csrc/common/layout.h \
    /tmp/w/core/csrc/cuda/pipeline/staging_slots.h \
    /tmp/w/core/csrc/cuda/runtime/execution_context.h \
    /tmp/w/core/csrc/cuda/runtime/cuda.h \
    /tmp/w/core/csrc/cuda/residency/execute.h \
    /tmp/w/core/csrc/cuda/pipeline/pipeline.h \
    /tmp/w/core/csrc/cuda/pipeline/in_order_executor.h \
    /tmp/w/core/csrc/cuda/residency/operands.h \
    /tmp/w/core/csrc/common/program.h \
    /tmp/w/core/csrc/cuda/residency/residency_map.h \
    /tmp/w/core/csrc/cuda/residency/device_pool.h \
    /tmp/w/core/csrc/cuda/residency/workspace.h \
    /tmp/w/core/csrc/cuda/runtime/stream_memory.h
