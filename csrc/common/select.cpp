// Checks the arguments of pk_select_*.
#include "select.h"

#include "common/call/status.h"

namespace pk {

SelectRequest::SelectRequest(Encoding encoding, const void *in, int64_t rows, int64_t columns,
                             const int64_t *ranks, int64_t rank_rows, int64_t rank_count, void *out,
                             int64_t *nans, size_t item)
    : encoding(encoding),
      in(in),
      rows(rows),
      columns(columns),
      ranks(ranks),
      rank_rows(rank_rows),
      rank_count(rank_count),
      out(out),
      nans(nans) {
    require(rows >= 0 && columns >= 0 && rank_count >= 0, "a count is negative");
    const int64_t most = INT64_MAX / 8 / std::max<int64_t>(rows, 1);  // a row has to fit, too
    require(columns <= most, "rows times columns is too large");
    require(rank_count <= most, "rows times rank_count is too large");
    require(rank_rows == 1 || rank_rows == rows, "rank_rows is neither 1 nor rows");
    require(in != nullptr || rows == 0 || columns == 0, "in is a null pointer");
    require(nans != nullptr || rows == 0, "nans is a null pointer");
    require_array(in, elements(), item, "in");
    require_array(nans, rows, sizeof(int64_t), "nans");
    if (rows == 0 || rank_count == 0) return;
    require(ranks != nullptr && out != nullptr, "ranks or out is a null pointer");
    require_array(ranks, rank_count, sizeof(int64_t), "ranks");
    require_array(out, rank_count, item, "out");
    for (int64_t row = 0; row < rank_rows; ++row) {
        const int64_t *own = ranks_of(row);
        require(own[0] >= 0 && own[rank_count - 1] < columns, "a rank is not from 0 to columns - 1");
        require(std::is_sorted(own, own + rank_count), "the ranks of a row are not in ascending order");
    }
}

}  // namespace pk
