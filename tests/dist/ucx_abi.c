/* SPDX-License-Identifier: Apache-2.0 */
/* What runtime/comm/ucx_abi.h declares, beside UCP's own header: compiling is the test. */
#include <ucp/api/ucp.h>

#include "runtime/comm/ucx_abi.h"

#define SAME(a, b) _Static_assert((long)(a) == (long)(b), #a)
#define FIELD(ours, theirs, name)                                                                                        \
    SAME(offsetof(struct ours, name), offsetof(theirs, name));                                                           \
    SAME(sizeof(((struct ours *)0)->name), sizeof(((theirs *)0)->name))

SAME(sizeof(struct ucx_params), sizeof(ucp_params_t));
FIELD(ucx_params, ucp_params_t, field_mask);
FIELD(ucx_params, ucp_params_t, features);
FIELD(ucx_params, ucp_params_t, tag_sender_mask);
FIELD(ucx_params, ucp_params_t, estimated_num_eps);
SAME(UCX_PARAM_FEATURES, UCP_PARAM_FIELD_FEATURES);
SAME(UCX_PARAM_TAG_SENDER_MASK, UCP_PARAM_FIELD_TAG_SENDER_MASK);
SAME(UCX_PARAM_ESTIMATED_NUM_EPS, UCP_PARAM_FIELD_ESTIMATED_NUM_EPS);
SAME(UCX_FEATURE_TAG, UCP_FEATURE_TAG);

SAME(sizeof(struct ucx_worker_params), sizeof(ucp_worker_params_t));
FIELD(ucx_worker_params, ucp_worker_params_t, field_mask);
FIELD(ucx_worker_params, ucp_worker_params_t, thread_mode);
SAME(UCX_WORKER_PARAM_THREAD_MODE, UCP_WORKER_PARAM_FIELD_THREAD_MODE);
SAME(UCX_THREAD_MODE_SERIALIZED, UCS_THREAD_MODE_SERIALIZED);

SAME(sizeof(struct ucx_ep_params), sizeof(ucp_ep_params_t));
FIELD(ucx_ep_params, ucp_ep_params_t, field_mask);
FIELD(ucx_ep_params, ucp_ep_params_t, address);
FIELD(ucx_ep_params, ucp_ep_params_t, err_mode);
FIELD(ucx_ep_params, ucp_ep_params_t, err_handler);
SAME(UCX_EP_PARAM_REMOTE_ADDRESS, UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
SAME(UCX_EP_PARAM_ERR_MODE, UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE);
SAME(UCX_EP_PARAM_ERR_HANDLER, UCP_EP_PARAM_FIELD_ERR_HANDLER);
SAME(UCX_ERR_MODE_NONE, UCP_ERR_HANDLING_MODE_NONE);
SAME(UCX_ERR_MODE_PEER, UCP_ERR_HANDLING_MODE_PEER);

SAME(sizeof(struct ucx_request_param), sizeof(ucp_request_param_t));
FIELD(ucx_request_param, ucp_request_param_t, op_attr_mask);

SAME(sizeof(ucx_status), sizeof(ucs_status_t));
SAME(sizeof(uint64_t), sizeof(ucp_tag_t));
SAME(UCX_OK, UCS_OK);
SAME(UCX_IN_PROGRESS, UCS_INPROGRESS);
SAME(UCX_ERR_NO_MEMORY, UCS_ERR_NO_MEMORY);
SAME(UCX_ERR_INVALID, UCS_ERR_INVALID_PARAM);
SAME(UCX_ERR_TRUNCATED, UCS_ERR_MESSAGE_TRUNCATED);
SAME(UCX_ERR_LAST, UCS_ERR_LAST);

int main(void)
{
    return 0;
}
