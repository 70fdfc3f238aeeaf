// What the files of the comm_func dialect share.
#pragma once

#include "dialects/build.hpp"
#include "unisono/comm_func.hpp"

namespace unisono::comm_func {

void set_call_on(Call& call, const TensorView& input, const ReduceOp& op = ReduceOp::sum);
void compare_shapes(Call& call, const TensorView& tensor);
Status find_root(const char* argument, Rank rank, const Group& group, int& root);
// A result that cannot be made refuses the call like an argument, so that the others hear of it and do not wait.
Status make_output(Tensor& output, DType dtype, const Shape& shape);
CommHandlePtr handle_of(const WorkPtr& work);  // null where there is no Work
// A result that lives as long as the call, even if the caller drops both it and the handle.
TensorAndHandle deliver_pair(Request&& request, Tensor output, bool async_op);

}  // namespace unisono::comm_func
