/* SPDX-License-Identifier: Apache-2.0 */
/* Modelled time of exchanges between GPUs: doc/ptxsim.md, "Collectives". */
#ifndef TCCC_SIM_LINK_H
#define TCCC_SIM_LINK_H

enum sim_exchange {
    SIM_ALL_REDUCE, SIM_REDUCE_SCATTER, SIM_ALL_GATHER, SIM_ALL_TO_ALL, SIM_BROADCAST, SIM_REDUCE, SIM_SEND
};
/* How it goes: steps from rank to rank, and of all its bytes the share that a rank sends one way. */
enum sim_algorithm { SIM_RING, SIM_TREE, SIM_DIRECT };
struct sim_way { enum sim_algorithm algorithm; double hops, share; };

/* Seconds of one among `ranks` GPUs of a machine's kind (an id of links.def), on `bytes`: what each gives to
 * all_reduce, reduce and reduce_scatter, what each has in the end of all_gather and all_to_all. Servers are filled one
 * by one. < 0: no such machine. */
double sim_exchange_seconds(const char *machine, enum sim_exchange kind, int ranks, double bytes);
/* Rounded up. */
static inline int
sim_log2(int n)
{
    int k = 0;
    while (1 << k < n)
        k++;
    return k;
}
/* GPUs of a server of that kind; 0: no such machine. */
int sim_server_gpus(const char *machine);

#endif
