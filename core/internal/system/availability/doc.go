// Package availability contains only tests. They measure the requests that the guard
// refuses, beside the same service without a guard, while a store fails over, fills its
// disk or loses a node, and while the service itself is deployed.
//
// Each test sends pairs of equal requests at a steady rate, one to a guarded service and
// one to its twin, whose handler writes to the same store. The twin's interruption is the
// store's own outage. The guard may add one StoreTimeout to it.
//
//	make availability
//
// prints the table of docs/guarantees.md. The file of each event says how the event is
// made. TestFailoverInShort and TestDeployInShort are small variants for every check.
package availability
