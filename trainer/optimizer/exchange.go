package optimizer

// The gradients of a batch are the sum of those of its micro-batches, and sums of floating-point numbers depend on
// their order. So micro-batches have numbers, and are added up in that order whichever rank made them. Each rank owns
// an equal part of all elements, is given that part of every micro-batch's gradient, and adds them as a process alone
// would. At the end of the step the parts are put together: those of the parameters, or, where every rank has the
// optimizer's whole state, those of the sums. The result is that of one process, bit for bit.
//
// With N ranks, M micro-batches each and gradients of B bytes every rank sends (M + 1) B (N-1)/N bytes a step. A ring
// that sums in an order of its own (reduce: fast) sends 2 B (N-1)/N. With one micro-batch for each rank they are equal.

//
// Several ranks share out what the optimizer keeps (ZeRO's first stage; Rajbhandari et al., 2020). Every rank owns an
// equal part of all elements, one stretch of them. It has the sum of the gradients and the optimizer's state of that
// part alone. It updates its part of the parameters, and the parts are put together: one exchange, in place of that of
// the gradients. Parts are cut between the blocks over which norms are added up and moments are rounded. So every bit
// is that of one process, and so is the saved state, which is whole.
//
// Adafactor's state is of rows and columns: little, and not of elements. Every rank has it whole. So it is with reduce:
// fast, which adds up whole gradients.

// Exchanged is how many elements go through the library at a time.
const Exchanged = 4 << 20
