// Package explore simulates several processes of the real engine over one hostile
// store, on a virtual clock, and judges each schedule by the promises of package
// core.
//
// Draw makes a Plan from a seed: pods, policies, requests, handlers and faults.
// Run carries the plan out in a testing/synctest bubble and returns its History.
// Judge names the promises that the history breaks. Shrink removes from the plan
// everything that the violation does not need, and Timeline prints the rest.
//
// The same plan always gives the same history. Every delay is computed from the
// seed and the identity of its cause, never from a shared random source, and is
// unique to the nanosecond, so that the order of goroutines does not matter.
package explore
