/* What can go wrong in a call, by the scenario (N is a card's number, FUNC a full NVML function name):
 *
 *   N.return = code         every call on the card answers this NVML code
 *   N.return.FUNC = code    one call does; wins over N.return
 *   N.handle = code         opening the card answers this
 *   init = code             nvmlInit answers this
 *   N.hang = seconds        every call on the card hangs first
 *   N.hang.FUNC = seconds   one call does
 *   init.hang = seconds     nvmlInit hangs first
 *   hang.kind = sleep | uninterruptible | unkillable
 *       sleep            an ordinary sleep; any signal ends it
 *       uninterruptible  state D in /proc, as inside a driver that waits for a dead card; SIGKILL still ends it
 *       unkillable       after SIGKILL the process stays, and its parent cannot reap it, until the seconds are over
 */
#ifndef FAULTS_H
#define FAULTS_H

/* Hang and fail as the scenario says for nvmlInit. Returns an NVML code. */
int fault_at_init(void);

/* The same for opening a card. */
int fault_at_handle(int card);

/* The same for a call on a card. */
int fault_in_call(int card, const char *function);

#endif
