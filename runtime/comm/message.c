/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.c - messages of any size: parts as large as an engine takes at once, one after the other, each begun when
 * the last one has ended.
 */
#include "runtime/comm/comm_int.h"

static int msg_next(struct tcr_net *net, struct tcr_msg *m)
{
    m->part = m->bytes - m->at < TCR_MESSAGE_BYTES ? m->bytes - m->at : TCR_MESSAGE_BYTES;
    return m->send ? net->engine->send(net, m->lane, m->peer, m->tag, m->data + m->at, m->part, &m->p)
                   : net->engine->recv(net, m->lane, m->peer, m->tag, m->data + m->at, m->part, &m->p);
}

int tcr_msg_start(struct tcr_net *net, struct tcr_msg *m, bool send, int lane, int peer, int tag, void *data,
                  size_t bytes)
{
    *m = (struct tcr_msg){.data = data, .bytes = bytes, .lane = (int16_t)lane, .send = send, .peer = peer, .tag = tag};
    m->active = true;
    return msg_next(net, m);
}

int tcr_msg_poll(struct tcr_net *net, struct tcr_msg *m, bool *moved)
{
    bool done;
    int status;

    if (!m->active)
        return TCC_OK;
    if ((status = net->engine->test(net, &m->p, &done)) || !done)
        return status;
    *moved = true;
    m->at += m->part;
    if (m->at < m->bytes)
        return msg_next(net, m);
    m->active = false;
    return TCC_OK;
}

void tcr_msg_cancel(struct tcr_net *net, struct tcr_msg *m)
{
    if (m->active)
        net->engine->cancel(net, &m->p);
    m->active = false;
}
