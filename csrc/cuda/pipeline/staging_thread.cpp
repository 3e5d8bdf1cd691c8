// One host thread of a staged copy: staging, copies, deliveries, and their trace.
#include "staging_thread.h"

#include <algorithm>

namespace pk {

StagingThread::StagingThread(StagedTransfer &transfer, Call &call, const std::vector<Buffer> &buffers)
    : transfer_(transfer), call_(call), lane_(call), free_since_(call.seconds()) {
    for (const Buffer &buffer : buffers) in_flight_.push_back({buffer});
}

void StagingThread::take(size_t index) {
    InFlight &in_flight = next();
    finish(in_flight);
    begin(in_flight, index);
    call_.check_interrupt();
}

void StagingThread::finish() {
    for (size_t i = 0; i < in_flight_.size(); ++i) finish(next());
}

void StagingThread::begin(InFlight &in_flight, size_t index) {
    const StagedPiece piece = transfer_.piece(index);
    const Buffer &buffer = in_flight.buffer;
    const bool up = piece.is_up, is_staged = piece.pinned == nullptr && piece.bytes != 0;
    if (up && is_staged) {
        const double begin = call_.seconds();
        transfer_.stage(index, buffer.host);
        lane_.add(PK_STAGE_STAGE, begin, call_.seconds(), piece.bytes, piece.elements);
    }
    char *const host = is_staged ? buffer.host : piece.pinned;
    const cudaStream_t stream = (up ? buffer.slot->streams.upload : buffer.slot->streams.download).get();
    transfer_.order(index, stream);
    in_flight.enqueued_at = call_.seconds();
    if (piece.bytes != 0) {
        PK_CUDA(cudaMemcpyAsync(up ? piece.d_data : host, up ? host : piece.d_data, size_t(piece.bytes),
                                up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream));
        PK_CUDA(cudaEventRecord(buffer.event, stream));
    }
    in_flight.piece = piece;
    in_flight.index = index;
    in_flight.is_used = true;
    transfer_.enqueued(index);
}

void StagingThread::finish(InFlight &in_flight) {
    if (!in_flight.is_used) return;
    in_flight.is_used = false;
    const StagedPiece &piece = in_flight.piece;
    const Buffer &buffer = in_flight.buffer;
    if (piece.bytes == 0) return transfer_.copied(in_flight.index);
    PK_CUDA(cudaEventSynchronize(buffer.event));
    const double copied = call_.seconds();
    lane_.add(piece.is_up ? PK_STAGE_UPLOAD : PK_STAGE_DOWNLOAD, std::max(in_flight.enqueued_at, free_since_),
              copied, piece.bytes, piece.elements, buffer.slot->device, buffer.slot->number);
    free_since_ = copied;
    transfer_.copied(in_flight.index);
    if (!piece.is_up && piece.pinned == nullptr) {
        const double begin = call_.seconds();
        transfer_.deliver(in_flight.index, buffer.host);
        lane_.add(PK_STAGE_UNSTAGE, begin, call_.seconds(), piece.host_bytes, piece.elements);
    }
    {
        const std::lock_guard<std::mutex> lock(call_.mutex);
        call_.report.chunks += piece.is_chunk;
        (piece.is_up ? call_.report.bytes_up : call_.report.bytes_down) += piece.bytes;
    }
    if (piece.progress != 0) call_.advance(piece.progress);
}

}  // namespace pk
